"""The fork servers of the fault tests, each started once, and the S3 of those on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runspec_rehearsal.aws.region import Objects
from tests.faults.cells import AT_ONCE
from tests.faults.cloud import AT_ONCE as AT_ONCE_ON_AWS, BUCKET, REGION
from tests.faults.world import Driver


@contextmanager
def drivers(count: int) -> Iterator[list[Driver]]:
    found = [Driver() for _ in range(count)]
    yield found
    for driver in found:
        driver.close()


@pytest.fixture(scope="session")
def pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE) as found:
        yield found


@pytest.fixture(scope="session")
def wide_pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE_ON_AWS) as found:
        yield found


@pytest.fixture
def driver(pool: list[Driver]) -> Driver:
    return pool[0]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("objects"))
    found.make_bucket(BUCKET, REGION)
    yield found
    found.close()
