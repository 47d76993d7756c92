"""The fork servers of the fault tests: started once, two so that both cores have something to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cells import AT_ONCE
from tests.faults.world import Driver

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def pool() -> Iterator[list[Driver]]:
    drivers = [Driver() for _ in range(AT_ONCE)]
    yield drivers
    for driver in drivers:
        driver.close()


@pytest.fixture
def driver(pool: list[Driver]) -> Driver:
    return pool[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests of this folder as the matrix, which takes as long as all other tests together."""
    for item in items:
        if item.path.parent == HERE and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.matrix)
