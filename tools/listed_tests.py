"""A plugin of pytest that runs listed tests alone, and writes down which tests fail.

pytest -p listed_tests --listed=FILE    run the tests whose ids are the lines of FILE, in that order
pytest -p listed_tests --failed=FILE    write the ids of the tests that fail into FILE
"""

from __future__ import annotations

from pathlib import Path

import pytest


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
    group = parser.getgroup("listed tests")
    group.addoption("--listed", type=Path, help="run only the tests that this file lists")
    group.addoption("--failed", type=Path, help="write the ids of the tests that fail here")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if listed := config.getoption("listed"):
        config.pluginmanager.register(Listed(listed))
    if (failed := config.getoption("failed")) and not is_worker:
        config.pluginmanager.register(Failed(failed))
