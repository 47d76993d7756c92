"""Tasks of a sweep are stopped, and nodes of an elastic job leave, by requests in the store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.provider import Conflict, State
from runspec_kubernetes.naming import CANCELLED, QUEUE_LABEL
from runspec_kubernetes.task_stop import NEVER_BACK
from tests.unit.runspec_kubernetes.fake_cluster import RUN, Fakes

ELASTIC = {"nodes": 3, "count": 1, "sweep": [], "elastic": {"min": 1, "max": 3}}
STATE = {"format": "runspec.elastic/v1", "phase": "done", "code": 0, "why": ""}


def test_stop_asks_agents_and_deletes_pods_that_wait() -> None:
    fakes = Fakes()
    fakes.add_job()
    fakes.add_pod(0, "Running")
    fakes.add_pod(1, "Pending")
    fakes.add_pod(2, "Pending")

    fakes.client.stop(RUN, [0, 1])

    assert {key for key in fakes.store if "/stop/" in key} == {
        f"runs/{RUN}/stop/0",
        f"runs/{RUN}/stop/1",
    }
    body = {"preconditions": {"uid": f"uid-{RUN}-1-1"}}
    path = f"/api/v1/namespaces/default/pods/{RUN}-1-1"
    assert fakes.cluster.sent == [("DELETE", path, body)]


def test_tasks_that_were_stopped_are_no_failures_for_max_failed() -> None:
    fakes = Fakes(max_failed=2)
    job = fakes.add_job(maxFailedIndexes=1)

    fakes.client.stop(RUN, [0])
    fakes.client.stop(RUN, [0])
    assert job["spec"]["maxFailedIndexes"] == 2

    fakes.client.stop(RUN, [1, 2, 3])
    assert job["spec"]["maxFailedIndexes"] == 4
    assert len(fakes.cluster.sent) == 2


def test_a_pod_that_was_replaced_meanwhile_is_left_alone() -> None:
    fakes = Fakes()
    fakes.add_job()
    fakes.add_pod(1, "Pending")
    fakes.cluster.refuses["DELETE"] = Conflict("the UID in the precondition differs")

    fakes.client.stop(RUN, [1])

    assert f"runs/{RUN}/stop/1" in fakes.store


def test_stop_does_nothing_for_a_job_that_has_ended() -> None:
    fakes = Fakes()
    job = fakes.add_job()
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    fakes.client.stop(RUN, [0])

    assert not any("/stop/" in key for key in fakes.store)


def test_released_nodes_leave_for_good() -> None:
    fakes = Fakes(**ELASTIC)
    job = fakes.add_job(3)
    fakes.add_pod(0, "Running")
    fakes.add_pod(1, "Pending")
    fakes.add_pod(2, "Running")

    first = fakes.client.release(RUN, [(0, 1), (0, 2)], [], lambda operation: ())
    job["status"] = {"completedIndexes": "1-2"}
    second = fakes.client.release(RUN, [(0, 1), (0, 2)], [], lambda operation: ())
    known = fakes.client.release(RUN, [], [], lambda operation: ())

    assert {key for key in fakes.store if "/released/" in key} == {
        f"runs/{RUN}/released/1",
        f"runs/{RUN}/released/2",
    }
    assert first == ({(0, 1), (0, 2)}, [(0, 1), (0, 2)], NEVER_BACK)
    assert second == ({(0, 1), (0, 2)}, [], NEVER_BACK)
    assert known == ({(0, 1), (0, 2)}, [], NEVER_BACK)
    assert [sent[0] for sent in fakes.cluster.sent] == ["DELETE"]


def test_an_elastic_job_that_is_over_does_not_wait_for_machines() -> None:
    fakes = Fakes(**ELASTIC)
    job = fakes.add_job(3)
    job["status"] = {"completedIndexes": "0-1"}
    fakes.add_pod(2, "Pending")

    assert fakes.client.reconcile(RUN) == []
    fakes.store[f"runs/{RUN}/elastic/0/state"] = json.dumps(STATE).encode()
    lines = fakes.client.reconcile(RUN)

    assert lines == ["ended 1 pod that waited for machines, because the elastic job is over"]
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["annotations"][CANCELLED] == "not-needed"
    fakes.cluster.objects.pop(f"/api/v1/namespaces/default/pods/{RUN}-2-1")
    assert fakes.client.state(RUN).state is State.SUCCEEDED


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_reconcile_ends_pods_that_wait_although_max_failed_tasks_have_failed(phase: str) -> None:
    fakes = Fakes(max_failed=1)
    fakes.add_job()
    fakes.store[f"runs/{RUN}/failed/0"] = b""
    fakes.add_pod(3, phase)

    fakes.client.reconcile(RUN)

    assert [sent[0] for sent in fakes.cluster.sent] == (["DELETE"] if phase == "Pending" else [])


@pytest.mark.parametrize(
    "labels,spec",
    [
        ({}, {"suspend": True}),
        ({QUEUE_LABEL: "team-a"}, {"activeDeadlineSeconds": 1, "parallelism": 0}),
    ],
)
def test_cancel_ends_a_job_so_that_nobody_starts_it_again(
    labels: dict[str, str], spec: dict[str, Any]
) -> None:
    """Kueue starts a suspended Job again that it has admitted."""
    fakes = Fakes()
    job = fakes.add_job()
    job["metadata"]["labels"] |= labels

    fakes.client.cancel(RUN)

    ((_, _, body),) = fakes.cluster.sent
    assert body["spec"] == spec
    assert job["metadata"]["annotations"] == {CANCELLED: "true"}
