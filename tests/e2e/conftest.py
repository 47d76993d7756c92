"""A region of AWS for each test, rehearsed on this machine, and one S3 for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_aws import times
from runspec_rehearsal.aws.region import Objects, Region
from tests.e2e.aws import BUCKET, REGION, SECRET, profile
from tests.e2e.following import Rehearsed


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("objects"))
    found.make_bucket(BUCKET, REGION)
    yield found
    found.close()


@pytest.fixture
def region(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    monkeypatch.setattr(times, "SETTLE_S", 1.0)
    monkeypatch.setattr(times, "QUIET_S", 0.2)
    found = Region(
        tmp_path / "region", REGION, objects, terminate_grace_s=2.0, secrets={SECRET: "s3cret"}
    )
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    profile(tmp_path)
    yield found
    found.close()


@pytest.fixture
def world(tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rehearsed]:
    with Region(tmp_path / "region", REGION, objects, terminate_grace_s=1.0) as region:
        for name, value in region.env.items():
            monkeypatch.setenv(name, value)
        yield Rehearsed(tmp_path, region)
