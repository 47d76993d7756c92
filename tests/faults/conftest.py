"""The fork servers of the fault tests, each started once, and the S3 of those on AWS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runspec_emulators.aws.region import Objects
from runspec_emulators.azure_services.blob import Blobs
from tests.faults.aws import BUCKET, REGION, aws
from tests.faults.azure import azure
from tests.faults.batchai import batchai
from tests.faults.cells import AT_ONCE
from tests.faults.cloud import AT_ONCE as AT_ONCE_ON_CLOUDS, New
from tests.faults.kubernetes import kubernetes
from tests.faults.world import Driver
from tests.support.requirements import need


@contextmanager
def drivers(count: int, *sdks: str) -> Iterator[list[Driver]]:
    """Give *count* that work at the same time: they are one, which has imported everything once."""
    driver = Driver(*sdks)
    yield [driver] * count
    driver.close()


@pytest.fixture(scope="session")
def pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE) as found:
        yield found


@pytest.fixture(scope="session")
def wide_pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE_ON_CLOUDS, "aws") as found:
        yield found


@pytest.fixture(scope="session")
def azure_pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE_ON_CLOUDS, "azure") as found:
        yield found


@pytest.fixture(scope="session")
def kubernetes_pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE_ON_CLOUDS, "kubernetes") as found:
        yield found


@pytest.fixture
def driver(pool: list[Driver]) -> Driver:
    return pool[0]


@pytest.fixture(scope="session")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[New]:
    """What makes a region of AWS for each world."""
    found = Objects(tmp_path_factory.mktemp("objects"))
    found.make_bucket(BUCKET, REGION)
    yield aws(found)
    found.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[New]:
    """What makes a cluster of Kubernetes for each world."""
    found = Objects(tmp_path_factory.mktemp("s3"))
    yield kubernetes(found)
    found.close()


@pytest.fixture(scope="session")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("azurite")
    with Blobs(tmp_path_factory.mktemp("blobs")) as found:
        yield found


@pytest.fixture(scope="session")
def account(blobs: Blobs) -> New:
    """What makes an account of Azure Batch for each world."""
    return azure(blobs)


@pytest.fixture(scope="session")
def subscription(blobs: Blobs) -> New:
    """What makes a subscription of Azure Batch AI for each world."""
    return batchai(blobs)
