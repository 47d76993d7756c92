"""A cluster of Kubernetes that is nobody's, a profile and a spec for it, and what the cluster knows of its pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import KEYS, Objects
from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.resources import PODS, Resource
from runspec_jobs.cli.app import run
from runspec_kubernetes import emulator, timing
from tests.support.profiles import own_profile

Capture = pytest.CaptureFixture[str]
Object = dict[str, Any]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("s3"))
    found.make_bucket(emulator.BUCKET, emulator.REGION)
    yield found
    found.close()


def prepared(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    objects: Objects | None = None,
    options: Any = None,
    **more: Any,
) -> Iterator[Kubernetes]:
    """Give a cluster with an empty folder, a profile, and quick waits; without *objects* there is no store."""
    monkeypatch.setattr(timing, "DEFAULT", replace(timing.DEFAULT, poll_s=0.1, fresh_s=0.1))
    with Kubernetes(tmp_path / "cluster", **{"own_root": True, **more}) as found:
        env = {
            **found.env,
            emulator.ACCESS_KEY: KEYS["AWS_ACCESS_KEY_ID"],
            emulator.SECRET_KEY: KEYS["AWS_SECRET_ACCESS_KEY"],
        }
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        work = tmp_path / "work"
        work.mkdir()
        monkeypatch.chdir(work)
        reach = {} if objects is None else emulator.reach(objects.url)
        if objects is not None:
            reach["store"] = f"s3://{emulator.BUCKET}/{tmp_path.name}"
        own_profile().write_text(
            json.dumps({"providers": {"kubernetes": {**reach, **(options or {})}}})
        )
        yield found


@pytest.fixture
def cluster(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kubernetes]:
    """Give a cluster whose store is in S3."""
    yield from prepared(tmp_path, monkeypatch, objects)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """Give a cluster without a store."""
    yield from prepared(tmp_path, monkeypatch)


def write(text: str, **fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "kubernetes", "run": text}
    Path("job.yaml").write_text(json.dumps({**spec, **fields}))
    return "job.yaml"


def said(capsys: Capture, *words: str) -> Any:
    """Give what a command says with --json."""
    capsys.readouterr()
    run([*words, "--json"])
    return json.loads(capsys.readouterr().out)


def pods(cluster: Kubernetes) -> list[Object]:
    """Return the pods of the cluster, as the emulator itself knows them."""
    return listed(cluster, PODS)


def listed(cluster: Kubernetes, resource: Resource) -> list[Object]:
    """Return all objects of a resource."""
    with cluster.world.lock:
        return list(cluster.world.all(resource))
