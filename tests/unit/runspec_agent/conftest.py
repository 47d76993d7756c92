"""moto's server and Azurite as object stores, each one for all, and a part of it for each test; and a folder."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from runspec_agent.base import boot
from runspec_agent.store import blob, ranged_read
from runspec_agent.store.base import Bucket, connect
from runspec_emulators.aws.region import KEYS, Objects
from runspec_emulators.azure_services.blob import Blobs
from tests.support.agent.breakable_stores import Way
from tests.support.requirements import need

REGION = "eu-central-1"
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("objects"))
    found.make_bucket("inside", REGION)
    yield found
    found.close()


@pytest.fixture(scope="session")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("azurite")
    with Blobs(tmp_path_factory.mktemp("blobs")) as found:
        found.make_container("inside")
        yield found


# What differs from store to store is below these. What else a job does asks each store for the same things.
OF_STORES = ("store", "transfer")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say which store it is: what a job needs of one, all give. There is no way to a folder that could be broken."""
    told = any("kind" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    told = told or hasattr(metafunc.module, "kind")
    if "kind" in metafunc.fixturenames and not told:
        differs = metafunc.definition.path.parent.name in OF_STORES
        more = [] if differs else [pytest.mark.matrix]
        kinds = ["s3", pytest.param("blob", marks=[pytest.mark.slow, *more])]
        if "way" not in inspect.signature(metafunc.function).parameters:
            kinds.append(pytest.param("folder", marks=more))
        metafunc.parametrize("kind", kinds, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def way(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Way | None]:
    """The way from here to the store, as the environment of a job says it."""
    if kind == "folder":
        monkeypatch.setenv("RUNSPEC_STORE", f"file://{tmp_path.parent}/{tmp_path.name} store é+~")
        yield None
        return
    there: Objects | Blobs = request.getfixturevalue("objects" if kind == "s3" else "blobs")
    with Way(f"http://127.0.0.1:{there.port}") as found:
        env = {**KEYS, "AWS_ENDPOINT_URL_S3": found.url, "RUNSPEC_REGION": REGION}
        prefix = f"test {next(NUMBERS)}+~é"
        env["RUNSPEC_STORE"] = f"s3://inside/{prefix}"
        if isinstance(there, Blobs):
            store = f"{found.url}/{there.account}/inside/{prefix}"
            env = {
                "RUNSPEC_STORE": store,
                "RUNSPEC_BLOB_URL": there.url,
                "RUNSPEC_SAS": there.sas("inside"),
            }
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def bucket(way: Way, pauses: list[float]) -> Bucket:
    return connect()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which nobody waits for."""
    found: list[float] = []
    clock = SimpleNamespace(
        **{k: getattr(time, k) for k in ("time strftime strptime gmtime".split())}
    )
    clock.sleep = found.append
    monkeypatch.setattr(boot, "time", clock)
    monkeypatch.setattr(ranged_read, "time", clock)
    monkeypatch.setattr(blob, "time", clock)
    return found
