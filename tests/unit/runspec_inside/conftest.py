"""moto's server as the object store, one for all, and a part of it for each test."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from runspec_inside import body, boot
from runspec_inside.bucket import Bucket
from runspec_rehearsal.aws.region import KEYS, Objects
from tests.unit.runspec_inside.stores import Way

REGION = "eu-central-1"
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("objects"))
    found.make_bucket("inside", REGION)
    yield found
    found.close()


@pytest.fixture
def way(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """The way from here to the store, as the environment of a job says it."""
    with Way(objects.url) as found:
        env = {
            **KEYS,
            "AWS_ENDPOINT_URL_S3": found.url,
            "RUNSPEC_REGION": REGION,
            "RUNSPEC_STORE": f"s3://inside/test {next(NUMBERS)}+~é",
        }
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def bucket(way: Way, pauses: list[float]) -> Bucket:
    return Bucket()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which nobody waits for."""
    found: list[float] = []
    clock = SimpleNamespace(
        **{k: getattr(time, k) for k in ("time strftime strptime gmtime".split())}
    )
    clock.sleep = found.append
    monkeypatch.setattr(boot, "time", clock)
    monkeypatch.setattr(body, "time", clock)
    return found
