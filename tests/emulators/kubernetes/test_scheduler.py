"""The scheduler: which node a pod gets, and what it says when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.kubernetes.world import Object
from tests.emulators.kubernetes.bench import PODS_PATH, Bench, pod

SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
NODES = {
    "big": {"capacity": {"cpu": "4", "nvidia.com/gpu": "2"}, "labels": {"size": "big"}},
    "spot": {"capacity": {"cpu": "2"}, "taints": [SPOT]},
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, nodes=NODES, priorities={"high": 1000})
    yield made
    made.close()


def asks(name: str = "p", spec: Any = None, **requests: str) -> Object:
    wanted = {k.replace("__", "/").replace("_", "."): v for k, v in requests.items()}
    made = pod(name, resources={"requests": wanted, "limits": wanted})
    made["spec"] |= spec or {}
    return made


def scheduled(bench: Bench, body: Object) -> Object:
    bench.make(PODS_PATH, body)
    bench.step()
    return bench.get(f"{PODS_PATH}/{body['metadata']['name']}")


def test_a_pod_gets_a_node_with_room(bench: Bench) -> None:
    kept = scheduled(bench, asks(nvidia_com__gpu="2"))

    assert kept["spec"]["nodeName"] == "big"
    assert kept["status"]["conditions"][0]["type"] == "PodScheduled"


def test_a_pod_without_a_node_says_why(bench: Bench) -> None:
    kept = scheduled(bench, asks(cpu="8"))

    found = kept["status"]["conditions"][0]
    taint = "1 node(s) had untolerated taint {spot: yes}"
    none = "0/2 nodes are available: "
    help_less = "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert found["message"] == f"{none}1 Insufficient cpu, {taint}. preemption: {none}{help_less}"
    events = bench.get("/api/v1/namespaces/default/events")["items"]
    assert [(e["reason"], e["message"]) for e in events] == [("FailedScheduling", found["message"])]


def test_a_toleration_opens_a_node_and_a_selector_closes_one(bench: Bench) -> None:
    toleration = {"key": "spot", "operator": "Exists"}
    kept = scheduled(
        bench,
        asks(
            "a", {"tolerations": [toleration], "nodeSelector": {"kubernetes.io/hostname": "spot"}}
        ),
    )
    other = scheduled(bench, asks("b", {"nodeSelector": {"size": "small"}}))

    assert kept["spec"]["nodeName"] == "spot"
    assert (
        "1 node(s) didn't match Pod's node affinity/selector"
        in other["status"]["conditions"][0]["message"]
    )


def test_a_pod_without_its_claim_waits(bench: Bench) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    kept = scheduled(bench, asks("p", {"volumes": [volume]}))
    assert 'persistentvolumeclaim "c" not found' in kept["status"]["conditions"][0]["message"]

    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    bench.make(path, {"metadata": {"name": "c"}, "spec": claim})
    bench.step()

    assert bench.get(f"{PODS_PATH}/p")["spec"]["nodeName"] == "big"


def test_a_pod_of_high_priority_takes_the_room_of_another(bench: Bench) -> None:
    scheduled(bench, asks("low", cpu="4"))
    waiting = scheduled(bench, asks("high", {"priorityClassName": "high"}, cpu="3"))
    low = bench.get(f"{PODS_PATH}/low")

    found = [c for c in low["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert found[0]["reason"] == "PreemptionByScheduler"
    assert "deletionTimestamp" in low["metadata"]
    assert waiting["status"]["nominatedNodeName"] == "big"
    bench.call("DELETE", f"{PODS_PATH}/low?gracePeriodSeconds=0")
    bench.step()
    assert bench.get(f"{PODS_PATH}/high")["spec"]["nodeName"] == "big"


def test_an_unknown_priority_class_is_refused(bench: Bench) -> None:
    status, value = bench.call("POST", PODS_PATH, asks("p", {"priorityClassName": "none"}))

    assert (status, value["reason"]) == (403, "Forbidden")
    assert value["message"] == 'pods "p" is forbidden: no PriorityClass with name none was found'


def test_a_node_has_room_on_its_disk(bench: Bench) -> None:
    disk = {"ephemeral-storage": "10Gi"}
    body = pod(resources={"requests": disk, "limits": disk})

    assert scheduled(bench, body)["spec"]["nodeName"] == "big"
