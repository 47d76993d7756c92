"""Jobs on an emulated cluster of Kubernetes that end in each way: their rows in the table of ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_emulators.aws.region import Objects
from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_kubernetes import decision
from runspec_kubernetes.options import SPOT as SPOT_NODES
from tests.e2e.test_elastic_torch import torch as torch  # a fixture
from tests.e2e.test_ends import (
    ELASTIC,
    FEW,
    OF_ELASTIC,
    OF_GANG,
    OF_SPOT_GANG,
    ON_SPOT,
    OVER_S,
    SPOT,
    TWO_ON_SPOT,
    WHOLE,
    Local,
    ended,
    event,
    gangs,
    on_cloud,
    start,
    waiting,
    without_room,
)
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.e2e.test_retry_rules import (
    NOT_AGAIN,
    REASONS,
    check,
    check_max_failed,
    in_table,
    spec,
)
from tests.support import ends
from tests.support.full_store import FullStore
from tests.support.kubernetes.emulated_cluster import Capture, objects as objects, pods, prepared

NAME = "kubernetes"
CLOUD = "gke"
LABEL = SPOT_NODES[CLOUD]
NODES = {
    **{f"node-{n}": {} for n in (1, 2)},
    **{f"spot-{n}": {"labels": {LABEL.label: LABEL.value}} for n in (1, 2)},
}
BELOW = {"LAST": "1", "AGENT": "pyz .*jo[b]"}  # how to find an agent that also copies its log
# Each pod ends by itself: whether the second one has the code of the program, or was told to end, is a matter of time.
OF_MPI = ("exit-0", "timeout", "cancel")
OF_TORCH = ("exit-3", "signal-KILL", "timeout", "agent", "cancel")
# Pods see no folder of this machine but volumes.
MARKED = {
    "mounts": [{"name": "told", "source": "shared://told", "target": "/job/told"}],
    "env": {**BELOW, "MARK": "/job/told/mark"},
}
pytestmark = [pytest.mark.slow]


class OnCluster(Local):
    """A project whose runs are pods of an emulated cluster."""

    def __init__(self, cluster: Kubernetes, capsys: Capture) -> None:
        super().__init__(Path.cwd(), capsys)
        self.emulated = cluster

    def befall(self, what: str, **how: Any) -> None:
        """Have something happen to the only pod that runs."""
        (pod,) = [pod for pod in pods(self.emulated) if pod["status"].get("phase") == "Running"]
        self.emulated.control("POST", what, {"pod": pod["metadata"]["name"], **how})


def projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, store: Any
) -> Iterator[OnCluster]:
    told = tmp_path / "told"
    told.mkdir()
    for cluster in prepared(
        tmp_path,
        monkeypatch,
        store,
        {"cloud": CLOUD, "shared": {"told": "pvc:told"}},
        nodes=NODES,
        grace_most_s=10,
        claims={"default/told": str(told)},
    ):
        yield OnCluster(cluster, capsys)


@pytest.fixture
def on_cluster(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> Iterator[OnCluster]:
    yield from projects(tmp_path, monkeypatch, capsys, objects)


def test_a_job_on_kubernetes_ends_in_a_few_ways(on_cluster: OnCluster) -> None:
    on_cloud(NAME, FEW, on_cluster)


@pytest.mark.matrix
def test_a_job_on_kubernetes_ends_in_each_way(on_cluster: OnCluster) -> None:
    on_cloud(NAME, (*WHOLE, "agent"), on_cluster)


@pytest.mark.matrix
def test_a_node_of_kubernetes_ends_an_agent_that_hangs(
    on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the deadline of its pod, which here comes 10 s after the timeout."""
    monkeypatch.setattr(decision, "PULL_S", -130)

    on_cloud(NAME, ("service",), on_cluster)


@pytest.mark.matrix
def test_a_job_on_spot_nodes_of_kubernetes_ends_in_each_way(on_cluster: OnCluster) -> None:
    on_cloud(NAME, ON_SPOT, on_cluster, cluster=SPOT, timeout="10m")


@pytest.mark.matrix
@pytest.mark.parametrize("end", ["cancel", "memory", "lost", "evicted", "preempted"])
def test_something_happens_to_a_job_on_kubernetes(on_cluster: OnCluster, end: str) -> None:
    acts: dict[str, Callable[[], Any]] = {
        "cancel": lambda: on_cluster.said("cancel", "job"),
        "memory": lambda: on_cluster.befall("oom"),
        "lost": lambda: on_cluster.befall("lose", gone_s=0.5),
        "evicted": lambda: on_cluster.befall("evict"),
        "preempted": lambda: on_cluster.befall("preempt"),
    }
    event(NAME, end, on_cluster, acts[end])


@pytest.mark.matrix
@pytest.mark.parametrize(("end", "notice_s"), [("lost", 0), ("notice", 0)])
def test_a_spot_node_of_kubernetes_is_reclaimed(
    on_cluster: OnCluster, end: str, notice_s: int
) -> None:
    """A cloud that takes a node shuts it down, by which its pods get SIGTERM; else the node is silent."""

    def reclaim() -> None:
        what = {"lost": ("lose", {"gone_s": 0.5}), "notice": ("reclaim", {})}[end]
        on_cluster.befall(what[0], **what[1])

    event(NAME, end, on_cluster, reclaim, cluster=SPOT)


@pytest.mark.matrix
def test_two_nodes_on_kubernetes_end_in_each_way(on_cluster: OnCluster) -> None:
    gangs(f"{NAME}-nodes", NAME, OF_GANG, on_cluster)


@pytest.mark.matrix
def test_two_spot_nodes_on_kubernetes_end_in_each_way(on_cluster: OnCluster) -> None:
    gangs(f"{NAME}-spot-nodes", NAME, OF_SPOT_GANG, on_cluster, cluster=TWO_ON_SPOT)


@pytest.mark.matrix
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_two_nodes_of_mpi_on_kubernetes_end_in_each_way(
    mpi: Path, on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")

    gangs(f"{NAME}-mpi", NAME, OF_MPI, on_cluster, launch="mpi", env=BELOW)


@pytest.mark.matrix
def test_two_nodes_of_torchrun_on_kubernetes_end_in_a_few_ways(
    torch: Path, on_cluster: OnCluster
) -> None:
    gangs(f"{NAME}-torchrun", NAME, OF_TORCH, on_cluster, launch="torchrun", env=BELOW)


@pytest.mark.matrix
def test_two_elastic_nodes_on_kubernetes_end_in_each_way(
    torch: Path, on_cluster: OnCluster
) -> None:
    gangs(f"{NAME}-elastic", NAME, OF_ELASTIC, on_cluster, **ELASTIC, **MARKED)


@pytest.mark.matrix
def test_a_job_on_kubernetes_has_no_room_in_its_store(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with FullStore(objects.url, empty=False) as store:
        for jobs in projects(tmp_path, monkeypatch, capsys, SimpleNamespace(url=store.address)):
            without_room(NAME, jobs, store.make_room, kubernetes={}, kubernetes_nodes={"nodes": 2})


def test_a_code_ends_a_task_on_kubernetes(on_cluster: OnCluster) -> None:
    check(on_cluster, NAME)


def test_failed_tasks_end_a_sweep_on_kubernetes(on_cluster: OnCluster) -> None:
    check_max_failed(on_cluster, NAME)


def test_a_timeout_ends_a_task_on_kubernetes(on_cluster: OnCluster) -> None:
    more = {"run": "sleep 600", "sweep": {}, "timeout": "20s"}

    in_table(NAME, ended(on_cluster, spec(NAME, [], REASONS[:1], **more)), "rule-timeout")


@pytest.mark.parametrize("end", ["rule-oom", "rule-lost"])
def test_what_befalls_a_pod_ends_its_task(on_cluster: OnCluster, end: str) -> None:
    rules = {"rule-oom": {"on": REASONS[1:]}, "rule-lost": NOT_AGAIN}
    waiting(on_cluster, NAME, retry={**ends.RETRY, **rules[end]})

    on_cluster.befall(*{"rule-oom": ("oom",), "rule-lost": ("evict",)}[end])

    status = on_cluster.until_over()
    in_table(NAME, status, end)
    assert [len(node["attempts"]) for node in status["nodes"]] == [1]


@pytest.mark.matrix
def test_an_image_that_cannot_be_pulled_ends_a_job_at_its_deadline(
    on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, the kubelet tries again and again, and `status` says so."""
    monkeypatch.setattr(decision, "PULL_S", -130)
    found = ends.spec(NAME, ["image"], container={"image": "registry.example/missing:1"})

    start(on_cluster, found)

    on_cluster.until(lambda: "cannot be pulled" in on_cluster.status()["reason"])
    status = on_cluster.until_over(limit_s=OVER_S)
    ends.check(NAME, ends.rows(status, ["image"]))
