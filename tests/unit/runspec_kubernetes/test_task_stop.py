"""Tasks of a sweep are stopped, and nodes of an elastic job leave, by requests in the store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.provider import Conflict, Released, State
from runspec_jobs.provider.elastic_tasks import OTHER_VERSION
from runspec_kubernetes.naming import CANCELLED, QUEUE_LABEL
from runspec_kubernetes.store_layout import agent_name
from runspec_kubernetes.task_stop import FIXED
from tests.unit.runspec_kubernetes.fake_cluster import RUN, Fakes

VOLUMES = [{"name": "agent", "configMap": {"name": agent_name()}}]
SPEC = {"parallelism": 3, "template": {"spec": {"volumes": VOLUMES}}}
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


def test_released_nodes_leave_and_come_back_as_other_indexes() -> None:
    fakes = Fakes(**ELASTIC)
    job = fakes.add_job(3, **SPEC)
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
    assert first == ({(0, 1), (0, 2)}, {(0, 1), (0, 2)}, "")
    assert second == known == ({(0, 1), (0, 2)}, set(), "")
    assert [sent[0] for sent in fakes.cluster.sent] == ["DELETE"]


def released(*nodes: int) -> Fakes:
    """Return a run of three nodes of which *nodes* were released, and have left after an attempt each."""
    fakes = Fakes(**ELASTIC)
    job = fakes.add_job(3, **SPEC)
    for node in range(3):
        fakes.add_pod(node, "Succeeded" if node in nodes else "Running")
    for node in nodes:
        fakes.store[f"runs/{RUN}/released/{node}"] = b""
        fakes.store[f"runs/{RUN}/ends/0/1/{node}-143-released"] = b""
    job["status"] = {"completedIndexes": ",".join(map(str, nodes))}
    return fakes


def come(fakes: Fakes, *nodes: int) -> Released:
    return fakes.client.release(RUN, [], [(0, node) for node in nodes], lambda operation: ())


def test_a_node_that_comes_back_is_one_more_index_of_the_job() -> None:
    fakes = released(1, 2)

    assert come(fakes, 2) == ({(0, 1)}, set(), "")
    assert come(fakes, 2) == ({(0, 1)}, set(), "")

    ((_, _, patch),) = fakes.cluster.sent
    assert patch["spec"] == {"completions": 4, "parallelism": 4}
    assert json.loads(fakes.store[f"runs/{RUN}/returned/3"]) == {"node": 2, "before": 1}
    assert f"runs/{RUN}/released/2" not in fakes.store
    waits = fakes.client.state(RUN).nodes[2]
    assert (waits.state, len(waits.attempts)) == (State.WAITING, 1)
    fakes.add_pod(3, "Running")
    node = fakes.client.state(RUN).nodes[2]
    assert (node.state, node.attempt, len(node.attempts)) == (State.RUNNING, 2, 1)
    assert len(fakes.client.state(RUN).nodes) == 3


def test_a_command_that_was_killed_between_its_requests_is_continued_elsewhere() -> None:
    fakes = released(1)
    fakes.store[f"runs/{RUN}/returned/3"] = b'{"node": 1, "before": 1}'
    fakes.store.remove([f"runs/{RUN}/released/1"])

    known = fakes.client.release(RUN, [], [], lambda operation: ())
    come(fakes, 1)

    assert known == ({(0, 1)}, set(), "")
    assert [key for key in fakes.store if "/returned/" in key] == [f"runs/{RUN}/returned/3"]
    assert [body["spec"]["completions"] for _, _, body in fakes.cluster.sent] == [4]


def test_of_two_indexes_that_two_machines_have_announced_the_claimed_one_counts() -> None:
    fakes = released(1)
    for index in (3, 4):
        fakes.store[f"runs/{RUN}/returned/{index}"] = b'{"node": 1, "before": 1}'
    fakes.store[f"runs/{RUN}/returned/1-1.claim"] = b"4"

    come(fakes, 1)
    fakes.add_pod(3, "Succeeded")
    fakes.add_pod(4, "Running")

    assert [node.state for node in fakes.client.state(RUN).nodes] == [State.RUNNING] * 3


def test_a_node_leaves_again_and_comes_back_again() -> None:
    fakes = released(1)
    come(fakes, 1)
    fakes.add_pod(3, "Succeeded")
    job = fakes.client.runs.job(RUN)
    assert job is not None

    left = fakes.client.release(RUN, [(0, 1)], [], lambda operation: ())
    job["status"] = {"completedIndexes": "1,3"}
    fakes.client.runs.pods(RUN, anew=True)
    come(fakes, 1)

    assert left.leaving == {(0, 1)}
    assert json.loads(fakes.store[f"runs/{RUN}/returned/4"]) == {"node": 1, "before": 2}


def test_a_job_that_was_cancelled_or_changed_meanwhile_gets_no_index() -> None:
    fakes = released(1)
    fakes.cluster.refuses["PATCH"] = Conflict("the object has been modified")
    with pytest.raises(Conflict):
        come(fakes, 1)

    del fakes.cluster.refuses["PATCH"]
    fakes.client.cancel(RUN)
    come(fakes, 1)

    job = fakes.client.runs.job(RUN)
    assert job is not None and job["spec"]["completions"] == 3


def test_a_job_that_has_ended_meanwhile_gets_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller starts none of a Job that is Complete, and the node would be one that never ended."""
    fakes = released(1)
    job = fakes.client.runs.job(RUN)
    assert job is not None
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    monkeypatch.setattr(fakes.store, "remove", lambda keys: job["status"].update(ended))

    come(fakes, 1)

    assert fakes.cluster.sent == []


@pytest.mark.parametrize(
    ("labels", "spec", "why"),
    [
        ({QUEUE_LABEL: "q"}, {}, FIXED.format("in a queue of Kueue")),
        ({}, {"parallelism": 2}, FIXED.format("with max_parallel")),
        ({}, {"template": {}}, OTHER_VERSION),
    ],
)
def test_nodes_of_a_job_that_cannot_grow_do_not_come_back(
    labels: dict[str, str], spec: dict[str, Any], why: str
) -> None:
    fakes = Fakes(**ELASTIC)
    fakes.add_job(3, **{**SPEC, **spec})["metadata"]["labels"] |= labels

    assert fakes.client.release(RUN, [], [], lambda operation: ()).never_back == why


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


@pytest.mark.parametrize("by_service", [False, True])
def test_tasks_of_two_nodes_that_were_killed_with_their_agents_count_for_max_failed(
    by_service: bool,
) -> None:
    """The Job itself counts tasks of one node, and then fails pods that have not failed."""
    fakes = Fakes(max_failed=2, nodes=2)
    job = fakes.add_job(8, **({"maxFailedIndexes": 1} if by_service else {}))
    job["status"] = {"failedIndexes": "0,3,4-5"}
    fakes.store[f"runs/{RUN}/stop/2"] = b""
    fakes.add_pod(6, "Pending")

    fakes.client.reconcile(RUN)
    fakes.client.reconcile(RUN)

    counted = {key for key in fakes.store if "/failed/" in key}
    assert counted == (set() if by_service else {f"runs/{RUN}/failed/{n}" for n in (0, 1)})
    assert [sent[0] for sent in fakes.cluster.sent] == ([] if by_service else ["DELETE"])


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
