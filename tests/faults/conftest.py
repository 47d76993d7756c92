"""The fork servers of the fault tests: started once, two so that both cores have something to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.cells import AT_ONCE
from tests.faults.world import Driver


@pytest.fixture(scope="session")
def pool() -> Iterator[list[Driver]]:
    drivers = [Driver() for _ in range(AT_ONCE)]
    yield drivers
    for driver in drivers:
        driver.close()


@pytest.fixture
def driver(pool: list[Driver]) -> Driver:
    return pool[0]
