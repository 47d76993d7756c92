"""Kubernetes as the contract tries it: a rehearsed cluster for each test, and one S3 for all."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from runspec_emulators.aws.region import KEYS, Objects
from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_jobs.load import registry
from runspec_jobs.provider import Client, Facts, Response
from runspec_jobs.testing import Strike, World
from runspec_kubernetes import emulator, timing
from runspec_kubernetes.client import KubernetesClient
from runspec_objects.store import Store
from tests.contract.service_faults import OURS, STRIKES, changing, silent

KEYS_OF_STORE = {
    "store-id": f"env:{emulator.ACCESS_KEY}",
    "store-key": f"env:{emulator.SECRET_KEY}",
}
SHARED = {"shared": {"all": "pvc:all"}}


class KubernetesWorld(World):
    """A cluster for each test, which is there from the first connect on."""

    objects: ClassVar[Objects | None] = None
    cluster: ClassVar[Kubernetes | None] = None
    patch: ClassVar[pytest.MonkeyPatch]

    def connect(self, facts: Facts) -> Client:
        rehearsed(self.folder)
        return super().connect(facts)

    @staticmethod
    def up() -> Kubernetes:
        assert KubernetesWorld.cluster is not None
        return KubernetesWorld.cluster

    def faults(self) -> Mapping[str, Strike]:
        return {kind: partial(struck, kind) for kind in STRIKES}

    def outage(self) -> AbstractContextManager[None]:
        return silent(lambda: KubernetesWorld.cluster)

    def changes(self, run: str) -> Sequence[str]:
        reads = ("get ", "list ", "watch ")
        return [name for name in changing(self.up()) if not name.startswith(reads)]

    def plain(self, client: Client, run: str) -> Mapping[str, bytes]:
        files = _files(client)
        base = f"runs/{run}/outputs/"
        keys = [name for name in files.names(base) if OURS not in name]
        return {key: files.read(base + key) or b"" for key in keys}

    def discard(self, client: Client, run: str, keys: Collection[str]) -> None:
        _files(client).remove([f"runs/{run}/outputs/{key}" for key in keys])


def _files(client: Client) -> Store:
    assert isinstance(client, KubernetesClient)
    assert client.store is not None
    return client.store


def struck(kind: str, send: Callable[[], Response]) -> Response:
    """Have the API server's next call that makes something go wrong by *kind*."""
    fault = {"nth": 1, "times": 1, "kind": kind, "operation": "create"}
    KubernetesWorld.up().control("PUT", "faults", [fault])
    try:
        return send()
    finally:
        KubernetesWorld.up().control("DELETE", "faults")


def kubernetes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    if KubernetesWorld.cluster is not None:
        KubernetesWorld.cluster.close()
        KubernetesWorld.cluster = None
    KubernetesWorld.patch = monkeypatch
    reach = emulator.reach(find_store(folder).url)
    return KubernetesWorld(
        registry.load("kubernetes"),
        folder,
        options={
            **reach,
            **SHARED,
            "secrets": KEYS_OF_STORE,
            "store": f"s3://{emulator.BUCKET}/{folder.name}",
        },
    )


def find_store(folder: Path) -> Objects:
    """Return S3, whose address is in every plan; one for all tests of this process."""
    if KubernetesWorld.objects is None:
        KubernetesWorld.objects = Objects(folder.parent / "s3")
        KubernetesWorld.objects.make_bucket(emulator.BUCKET, emulator.REGION)
        atexit.register(KubernetesWorld.objects.close)
    return KubernetesWorld.objects


def rehearsed(folder: Path) -> None:
    """Start a cluster if there is none yet, and lead the clients to it."""
    if KubernetesWorld.cluster is None:
        KubernetesWorld.cluster = Kubernetes(folder / "cluster", own_root=True)
        atexit.register(KubernetesWorld.cluster.close)
    env = {
        **KubernetesWorld.cluster.env,
        emulator.ACCESS_KEY: KEYS["AWS_ACCESS_KEY_ID"],
        emulator.SECRET_KEY: KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    for name, value in env.items():
        KubernetesWorld.patch.setenv(name, value)
    quick = timing.Timing(poll_s=0.1, fresh_s=0.1)
    KubernetesWorld.patch.setattr(timing, "DEFAULT", quick)
