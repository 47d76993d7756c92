"""Kueue: jobs of its queues wait until it starts them, and it says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.kubernetes.resources import LOCAL_QUEUES
from tests.emulators.kubernetes.bench import JOBS_PATH, Bench, indexed

QUEUES = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/localqueues"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads"
FULL = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, kueue=True, kueue_waits=FULL)
    yield made
    made.close()


def queued() -> Any:
    body = indexed()
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    return body


def reserved(bench: Bench, uid: str) -> Any:
    """Return whether quota is reserved for a job, and what is said of it."""
    (workload,) = bench.get(f"{WORKLOADS}?labelSelector=kueue.x-k8s.io/job-uid={uid}")["items"]
    (found,) = (c for c in workload["status"]["conditions"] if c["type"] == "QuotaReserved")
    return found["status"], found["message"]


def test_a_job_of_a_queue_waits_and_says_why(bench: Bench) -> None:
    uid = bench.make(JOBS_PATH, queued())["metadata"]["uid"]
    bench.step()
    assert reserved(bench, uid) == ("False", "LocalQueue team doesn't exist")

    bench.make(QUEUES, {"metadata": {"name": "team"}, "spec": {"clusterQueue": "all"}})
    bench.step()

    assert reserved(bench, uid) == ("False", FULL)
    assert bench.get(f"{JOBS_PATH}/j")["spec"]["suspend"] is True
    assert bench.pods() == []


def test_kueue_starts_a_job_and_stops_one_that_it_has_not(bench: Bench) -> None:
    bench.make(QUEUES, {"metadata": {"name": "team"}, "spec": {"clusterQueue": "all"}})
    uid = bench.make(JOBS_PATH, queued())["metadata"]["uid"]
    patch = {"spec": {"suspend": False}}
    bench.call("PATCH", f"{JOBS_PATH}/j", patch, "application/merge-patch+json")
    bench.step()
    assert bench.get(f"{JOBS_PATH}/j")["spec"]["suspend"] is True

    bench.cluster.settings = bench.cluster.settings.changed({"kueue_waits": ""})
    bench.step()

    assert reserved(bench, uid)[0] == "True"
    assert len(bench.pods()) == 3


def test_without_kueue_its_group_is_not_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    status, value = bench.call("GET", WORKLOADS)

    assert (status, value["message"]) == (404, "the server could not find the requested resource")
    bench.close()


def test_an_object_that_a_test_puts_has_a_uid(bench: Bench) -> None:
    """As each of the API server; the garbage collector asks for it."""
    queue = {"metadata": {"name": "team", "namespace": "default"}, "spec": {}, "status": {}}
    with bench.cluster.lock:
        bench.cluster.put(LOCAL_QUEUES, queue)

    bench.step()

    assert bench.get(f"{QUEUES}/team")["metadata"]["uid"]
