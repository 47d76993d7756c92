"""A plugin of pytest that records which test runs which lines of the product, and one that runs listed tests alone.

    pytest -p reached_lines --record-lines=FOLDER    write a file for each process of pytest into FOLDER
    pytest -p reached_lines --listed=FILE            run the tests whose ids are the lines of FILE, in that order
    pytest -p reached_lines --failed=FILE            write the ids of the tests that fail into FILE

Lines that run in other processes are not recorded: the quick tests start none.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

PRODUCT = ("runner/", "providers/")


class Reached(NamedTuple):
    """What one test ran: how long it took, and a number for each file whose bits are the lines that ran."""

    seconds: float
    lines: Mapping[str, int]


class Recorder:
    """Notes each line of a file below *folder* that runs while it is on."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}{os.sep}"
        self._lines: dict[str, set[int] | None] = {}  # None: the file is none of the product
        self.tests: dict[str, Reached] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began, before = time.perf_counter(), (sys.gettrace(), threading.gettrace())
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(before[0])
            threading.settrace(before[1])
            self.tests[item.nodeid] = Reached(time.perf_counter() - began, self._take_lines())

    def _take_lines(self) -> dict[str, int]:
        reached = {}
        for file, lines in self._lines.items():
            if lines:
                name = file.removeprefix(self._folder)
                reached[name] = sum(1 << line for line in lines)
                lines.clear()
        return reached

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        try:
            lines = self._lines[file]
        except KeyError:
            inside = file.removeprefix(self._folder).startswith(PRODUCT)
            lines = self._lines[file] = set() if inside else None
        if lines is None:
            return None
        add = lines.add
        add(frame.f_lineno)

        def run_line(frame: FrameType, _event: str, _argument: Any) -> Any:
            add(frame.f_lineno)
            return run_line

        return run_line


def write_record(path: Path, tests: Mapping[str, Reached]) -> None:
    """Write what *tests* ran, as JSON in gzip."""
    table = {
        test: [round(seconds, 4), {file: hex(bits) for file, bits in lines.items()}]
        for test, (seconds, lines) in tests.items()
    }
    with gzip.open(path, "wt", compresslevel=3) as stream:
        json.dump(table, stream)


def read_record(path: Path) -> dict[str, Reached]:
    """Return what `write_record` has written."""
    with gzip.open(path, "rt") as stream:
        table = json.load(stream)
    return {
        test: Reached(seconds, {file: int(bits, 16) for file, bits in lines.items()})
        for test, (seconds, lines) in table.items()
    }


def list_tests(
    tests: Mapping[str, Reached], file: str, lines: Iterable[int] | None = None
) -> list[str]:
    """Return the tests that ran one of *lines* of *file*, or any line of it, the quickest first."""
    wanted = -1 if lines is None else sum(1 << line for line in lines)
    ran = [(seconds, test) for test, (seconds, bits) in tests.items() if bits.get(file, 0) & wanted]
    return [test for _, test in sorted(ran)]


class Listed:
    """Runs the tests of a list, in its order."""

    def __init__(self, path: Path) -> None:
        self._order = {test: number for number, test in enumerate(path.read_text().splitlines())}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        listed = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(listed, key=lambda item: self._order[item.nodeid])


class Failed:
    """Writes down which tests fail, when they do."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self._path.open("a") as stream:
                stream.write(f"{report.nodeid}\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lines of the product")
    group.addoption("--record-lines", type=Path, help="write which test runs which lines here")
    group.addoption("--listed", type=Path, help="run only the tests that this file lists")
    group.addoption("--failed", type=Path, help="write the ids of the tests that fail here")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if listed := config.getoption("listed"):
        config.pluginmanager.register(Listed(listed))
    if (failed := config.getoption("failed")) and not is_worker:
        config.pluginmanager.register(Failed(failed))
    if config.getoption("record_lines"):
        config.pluginmanager.register(Recorder(config.rootpath), "recorder")


def pytest_unconfigure(config: pytest.Config) -> None:
    recorder = config.pluginmanager.get_plugin("recorder")
    if recorder is not None and recorder.tests:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        folder = config.getoption("record_lines")
        write_record(folder / f"{worker}.json.gz", recorder.tests)
