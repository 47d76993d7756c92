"""A plugin of pytest that lets mutants of functions meet the tests that are nearest to them, in forks of one process.

    pytest -n 0 -p forked_mutants --mutants=FILE --verdicts=FILE

Tests are collected and modules imported once. Each mutant then lives in a child process, where the code of its function
is exchanged. A child takes a fraction of a second, where a pytest of its own takes ten. It meets plain tests first, and
then those that start processes, which see what they run themselves. Code that runs when a module is imported cannot be
exchanged, nor can code in other processes: such a mutant is left over, with the nearest tests.

The first file has a line of JSON for each mutant, a `Change`; the second gets one, a `Verdict`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

WORKERS = 2  # mutants that are judged at the same time
SHARE_S = 10.0  # processor time: how long the plain tests of one mutant may take
PROCESSES_S = 60.0  # how long those that start processes may take together, which mostly wait
CHILD_S = 300.0  # a child that takes longer is killed: a test that never ends sees its mutant
CACHED = type(functools.cache(len))
NEAREST = 60  # tests that are named for a mutant that is left over


class Change(NamedTuple):
    """A mutant: *source* is that of the whole *file*, and *function* the innermost around it, or empty."""

    number: int
    file: str
    source: str
    function: str


class Verdict(NamedTuple):
    """What became of a mutant: the test that sees it, or how many did not, or, if it met none, the nearest tests."""

    number: int
    killer: str
    met: int
    nearest: list[str]


class Product:
    """The functions of the product that were imported, and what remembers their results."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._functions: dict[str, list[FunctionType]] = defaultdict(list)
        self._caches = []
        gc.unfreeze()  # what is frozen is not listed
        for found in gc.get_objects():
            if type(found) is FunctionType:
                self._functions[found.__code__.co_filename].append(found)
            elif type(found) is CACHED:
                self._caches.append(found)
        gc.freeze()

    def change(self, change: Change) -> bool:
        """Exchange the code of the functions that *change* concerns; return whether that was possible."""
        path = str(self._root / change.file)
        before = by_name(compile((self._root / change.file).read_text(), path, "exec"))
        after = by_name(compile(change.source, path, "exec"))
        exchanged = False
        for function in self._functions[path]:
            name = function.__code__.co_qualname
            old, new = before.get(name, []), after.get(name, [])
            lines = [code.co_firstlineno for code in old]
            if len(old) == len(new) and function.__code__.co_firstlineno in lines:
                at = lines.index(function.__code__.co_firstlineno)
                try:
                    function.__code__ = new[at]
                except ValueError:  # a variable of the function around it is used no more
                    return False
                exchanged |= name == change.function or change.function.startswith(f"{name}.")
        for cache in self._caches:
            if str(self._root) in cache.__wrapped__.__code__.co_filename:
                cache.cache_clear()
        return exchanged


def by_name(code: CodeType) -> dict[str, list[CodeType]]:
    """Return the code of functions in *code*, in order of their lines, by their full names."""
    found: dict[str, list[CodeType]] = defaultdict(list)
    for inner in _walk(code):
        found[inner.co_qualname].append(inner)
    return {name: sorted(those, key=lambda c: c.co_firstlineno) for name, those in found.items()}


def _walk(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _walk(inner)


def nearness(test_file: str, text: str, change: Change) -> int:
    """Return how near the tests of a file, with its *text*, are to *change*: 0 is not near."""
    file = Path(change.file)
    package = file.parts[1:-1]
    if test_file == change.file:
        return 20  # its doctests
    score = 0
    for at, part in enumerate(package):
        score += 2 * (Path(test_file).parts[2 + at : 3 + at] == (part,))
    if score or package[0] in text:
        score += 4 * (file.stem in Path(test_file).stem)
        imported = rf"\b{re.escape('.'.join(package))}(\.| import .*){file.stem}\b"
        score += 3 * bool(re.search(imported, text))
    last = change.function.rpartition(".")[2]
    if len(last) > 4 and re.search(rf"\b{re.escape(last)}\b", text):
        score += 4
    return score


def starts_processes(item: pytest.Item) -> bool:
    return item.get_closest_marker("process") is not None


class Judge:
    """Gives each mutant to a child, and the tests to it, the nearest first."""

    def __init__(self, session: pytest.Session, verdicts: Path) -> None:
        self._session, self._verdicts = session, verdicts
        root = session.config.rootpath
        self._product = Product(root)
        self._files: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            self._files[item.nodeid.partition("::")[0]].append(item)
        self._texts = {file: (root / file).read_text() for file in self._files}
        self._sound: set[str] = set()

    def decide(self, change: Change) -> Verdict:
        """Return what becomes of *change*. A test counts that fails twice, and passes without a change."""
        near = self._nearest(change)
        met = 0
        for starting in (False, True):
            left = [item for item in near if starts_processes(item) == starting]
            while left:
                failed, passed = self._meet(change, left)
                if failed == "(left over)":
                    return Verdict(change.number, "", 0, [item.nodeid for item in left[:NEAREST]])
                met += passed
                if not failed:
                    break
                at = next(n for n, item in enumerate(left) if item.nodeid == failed)
                one = [left[at]]
                if self._meet(change, one)[0] and not self._meet(None, one)[0]:
                    return Verdict(change.number, failed, met, [])
                left = left[at + 1 :]
        return Verdict(change.number, "", met, [])

    def _nearest(self, change: Change) -> list[pytest.Item]:
        near = {file: nearness(file, text, change) for file, text in self._texts.items()}
        order = sorted((file for file in near if near[file]), key=lambda file: -near[file])
        return [item for file in order for item in self._files[file]]

    def _meet(self, change: Change | None, items: Sequence[pytest.Item]) -> tuple[str, int]:
        """Return the first of *items* that fails with *change*, or an empty text, and how many passed."""
        # A file, because a pipe that nobody reads holds a child up when it is full.
        with tempfile.TemporaryFile() as told:
            child = os.fork()
            if not child:
                os.setsid()  # what its tests start ends with it
                with contextlib.suppress(BaseException):
                    self._run(change, items, told.fileno())
                os._exit(0)
            until = time.monotonic() + CHILD_S
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.monotonic() > until:
                    os.kill(child, signal.SIGKILL)
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            told.seek(0)
            lines = told.read().decode().splitlines()
        # A child that ended without a last word was ended by the test that it ran.
        passed = max(0, len(lines) - 1)
        return ("" if lines[-1:] == ["(end)"] else (lines or ["(left over)"])[-1]), passed

    def _run(self, change: Change | None, items: Sequence[pytest.Item], writer: int) -> None:
        if change and not self._product.change(change):
            os.write(writer, b"(left over)\n")
            return
        config = self._session.config
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        config._tmp_path_factory._basetemp = folder.resolve()  # type: ignore[attr-defined]  # noqa: SLF001
        seen = Seen()
        config.pluginmanager.register(seen)
        clock, share_s = time.process_time, SHARE_S
        if starts_processes(items[0]):
            clock, share_s = time.monotonic, PROCESSES_S
        limit = clock() + share_s
        for item, following in zip(items, [*items[1:], None], strict=True):
            os.write(writer, f"{item.nodeid}\n".encode())
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if seen.failed:
                break
            if clock() > limit:
                break
        self._session._setupstate.teardown_exact(None)  # noqa: SLF001 - servers that the next test would use
        if not seen.failed:
            os.write(writer, b"(end)\n")
        shutil.rmtree(folder, ignore_errors=True)

    def write(self, verdict: Verdict) -> None:
        with self._verdicts.open("a") as stream:
            stream.write(f"{json.dumps(verdict)}\n")


class Seen:
    """Notes whether a test failed."""

    failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutants in forks")
    group.addoption("--mutants", type=Path, help="the mutants, a line of JSON each")
    group.addoption("--verdicts", type=Path, help="write what became of them here")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not (mutants := session.config.getoption("mutants")):
        return None
    judge = Judge(session, session.config.getoption("verdicts"))
    changes = [Change(*json.loads(line)) for line in mutants.read_text().splitlines()]
    workers = []
    for first in range(WORKERS):
        child = os.fork()
        if not child:
            try:
                for change in changes[first::WORKERS]:
                    judge.write(judge.decide(change))
            except BaseException as exc:  # noqa: BLE001 - said, and not run on into the tests
                print(f"{exc!r}", file=sys.__stderr__)
            os._exit(0)
        workers.append(child)
    for child in workers:
        os.waitpid(child, 0)
    return True
