"""A region of AWS for each test, rehearsed on this machine; one S3, and one Azurite that talks https, for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Objects, Region
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.frame.listening import Certificate
from tests.support import certificates
from tests.support.aws.emulated_account import BUCKET, REGION, prepared
from tests.support.aws.log_following import Rehearsed
from tests.support.azure.emulated_account import CONTAINER
from tests.support.requirements import need


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("objects"))
    found.make_bucket(BUCKET, REGION)
    yield found
    found.close()


@pytest.fixture
def region(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    yield from prepared(objects, tmp_path, monkeypatch)


@pytest.fixture
def world(tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rehearsed]:
    with Region(tmp_path / "region", REGION, objects, terminate_grace_s=1.0) as region:
        for name, value in region.env.items():
            monkeypatch.setenv(name, value)
        yield Rehearsed(tmp_path, region)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.made(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="session")
def encrypted(
    certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Blobs]:
    need("azurite")
    with Blobs(tmp_path_factory.mktemp("encrypted"), certificate=certificate) as found:
        found.make_container(CONTAINER)
        yield found
