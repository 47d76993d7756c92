"""Which pod this machine talks to, if a volume claim is the store."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from runspec_jobs.provider import Request, Unavailable
from runspec_kubernetes import lookup, store_claim
from runspec_kubernetes.job import CONTAINER
from runspec_kubernetes.options import KubernetesOptions
from tests.unit.runspec_kubernetes.fake_cluster import FakeCluster


def test_the_pod_of_the_store_is_started_and_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(KubernetesOptions(store="pvc:data"))
    cluster.add("persistentvolumeclaims", "data", None)
    connected: list[str] = []

    def make(request: Request) -> None:
        path, _, name = lookup.path_of(request).rpartition("/")
        if path.endswith("/jobs"):
            cluster.add("jobs", name, None)
            state = {"containerStatuses": [{"name": CONTAINER, "state": {"running": {}}}]}
            pod = cluster.add("pods", f"{name}-x7k2m", None, status=state)
            pod["metadata"]["labels"][store_claim.LABEL] = name

    def connect(options: Any, pod: str, words: Any, *, terminal: bool) -> NoReturn:
        connected.append(pod)
        raise Unavailable("no socket here")

    monkeypatch.setattr(store_claim, "connect", connect)

    with pytest.raises(Unavailable, match="no socket here"):
        store_claim.open_store(cluster, make).read("key")

    assert {pod[:14] + pod[-6:] for pod in connected} == {"runspec-store-" + "-x7k2m"}
