"""The state of runs in special cases: of Jobs that have ended, and of logins with few rights."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.provider import Conflict, Facts, RemoteError, State
from runspec_kubernetes import plan
from runspec_kubernetes.errors import Answer, Refused, translated
from runspec_kubernetes.naming import CANCELLED
from tests.unit.runspec_kubernetes.fake_cluster import RUN, Fakes
from tests.unit.runspec_kubernetes.plans import make_spec

COMPLETE = {"type": "Complete", "status": "True"}


def test_a_run_that_has_failed_stays_failed_when_it_is_canceled() -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus: no completionTime."""
    fakes = Fakes()
    job = fakes.add_job()
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

    fakes.client.cancel(RUN)

    assert fakes.cluster.sent == []
    assert fakes.client.state(RUN).state is State.FAILED


def test_a_job_that_fails_while_it_is_canceled_stays_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The patch is for the version that was read; without a version, it would change a Job that has ended."""
    fakes = Fakes()
    job = fakes.add_job()
    job["metadata"]["resourceVersion"] = "1"
    send = fakes.cluster.send

    def fails(method: str, path: str, query: Any = None, body: Any = None, **more: Any) -> Any:
        if method == "PATCH":
            job["metadata"]["resourceVersion"] = "2"
            job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
            if body["metadata"].get("resourceVersion") == "1":
                raise Conflict("the object has been modified")
        return send(method, path, query, body, **more)

    monkeypatch.setattr(fakes.cluster, "send", fails)

    fakes.client.cancel(RUN)

    assert fakes.client.state(RUN).state is State.FAILED


def test_a_sweep_that_a_deadline_has_ended_has_failed() -> None:
    """The pods of the other tasks were deleted, which nobody has asked for."""
    fakes = Fakes(ends=False)
    job = fakes.add_job()
    job["status"] = {"completedIndexes": "0,1"}
    ended = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
    job["status"]["conditions"] = [ended]

    status = fakes.client.state(RUN)

    assert (status.state, status.reason) == (State.FAILED, "late")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            {"reason": "DeadlineExceeded"},
            "timeout: not done after 60 s; Kubernetes ended it at its own",
        ),
        ({"reason": "Evicted", "message": "too much disk"}, "Evicted: too much disk"),
        ({}, "it was told to end"),
    ],
)
def test_a_node_knows_better_than_an_agent_that_was_told_to_end(
    said: dict[str, str], reason: str
) -> None:
    fakes = Fakes(timeout_s=60)
    fakes.add_job()["status"] = {"failedIndexes": "0"}
    pod = fakes.add_pod(0, "Failed")
    ended = {"exitCode": 143, "message": "0/1/0-143-stopped"}
    pod["status"] |= {
        **said,
        "containerStatuses": [{"name": "job", "state": {"terminated": ended}}],
    }

    node = fakes.client.state(RUN).nodes[0]

    assert (node.state, node.exit_code) == (State.FAILED, 143)
    assert node.reason.startswith(reason)


def test_a_task_that_succeeds_while_max_failed_ends_the_job_has_succeeded() -> None:
    """The Job controller takes the finalizers of all pods away as soon as it fails the Job: see canRemoveFinalizer."""
    fakes = Fakes(max_failed=1)
    ended = {"type": "Failed", "status": "True", "reason": "MaxFailedIndexesExceeded"}
    fakes.add_job(2)["status"] = {"failedIndexes": "0", "conditions": [ended]}
    for name in ("0/1/0-3-program", "1/1/0-0-program"):
        fakes.store[f"runs/{RUN}/ends/{name}"] = b""

    nodes = fakes.client.state(RUN).nodes

    assert [(n.state, n.exit_code) for n in nodes] == [(State.FAILED, 3), (State.SUCCEEDED, 0)]


def test_a_task_that_ends_after_others_were_killed_without_a_word_is_canceled() -> None:
    """A container that is killed for its memory leaves no record, but counts for `maxFailedIndexes`."""
    fakes = Fakes(max_failed=2, count=3)
    ended = {"type": "Failed", "status": "True", "reason": "MaxFailedIndexesExceeded"}
    fakes.add_job(3)["status"] = {"failedIndexes": "0-2", "conditions": [ended]}
    killed = {"exitCode": 137, "reason": "OOMKilled"}
    state = {"name": "job", "state": {"terminated": killed}}
    fakes.add_pod(0, "Failed")["status"] |= {"containerStatuses": [state]}
    for name in ("ends/1/1/0-3-program", "failed/1", "ends/2/1/0-143-stopped"):
        fakes.store[f"runs/{RUN}/{name}"] = b""

    status = fakes.client.state(RUN)

    assert [n.state for n in status.nodes] == [State.FAILED, State.FAILED, State.CANCELLED]
    assert "2 tasks have failed, and 1 other was cancelled" in status.reason


def test_a_pod_that_its_node_rejects_says_why() -> None:
    """It has no containers and no conditions: rejectPod in pkg/kubelet/kubelet.go."""
    fakes = Fakes()
    fakes.add_job(1)["status"] = {"failedIndexes": "0"}
    said = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu"
    fakes.add_pod(0, "Failed")["status"] |= {"reason": "OutOfnvidia.com/gpu", "message": said}

    (node,) = fakes.client.state(RUN).nodes

    assert (node.state, node.exit_code) == (State.FAILED, None)
    assert node.reason == f"OutOfnvidia.com/gpu: {said}"


def test_a_task_that_succeeds_while_its_node_shuts_down_was_not_reclaimed() -> None:
    """Its pod has the condition all the same: generateAPIPodStatus in pkg/kubelet/kubelet_pods.go."""
    fakes = Fakes()
    fakes.add_job(1)["status"] = {"completedIndexes": "0", "conditions": [COMPLETE]}
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    ended = {"exitCode": 0, "message": "0/1/0-0-program"}
    fakes.add_pod(0, "Succeeded")["status"] |= {
        "conditions": [disrupted],
        "containerStatuses": [{"name": "job", "state": {"terminated": ended}}],
    }

    (node,) = fakes.client.state(RUN).nodes
    (attempt,) = node.attempts

    assert (node.state, attempt.exit_code) == (State.SUCCEEDED, 0)
    assert (attempt.reclaimed, attempt.reason) == (False, "")


def test_a_login_without_events_has_a_status() -> None:
    fakes = Fakes()
    fakes.add_job()
    fakes.cluster.refuses["GET .*/events"] = Refused("events is forbidden", code=403)

    assert fakes.client.state(RUN).state is State.WAITING


def test_a_list_that_has_expired_is_asked_for_again() -> None:
    body = json.dumps({"reason": "Expired", "message": "too old"}).encode()

    with pytest.raises(RemoteError) as caught, translated("list pods"):
        raise Answer(410, {}, body)

    assert caught.value.transient


def test_an_agent_with_other_content_is_not_taken() -> None:
    fakes = Fakes()
    agent = plan.steps(make_spec(), RUN, Facts(fakes.client.options))[0]
    fakes.client.call(agent.do)
    path = next(iter(fakes.cluster.objects))
    fakes.cluster.objects[path]["binaryData"] = {"inside.pyz": "AAAA"}

    with pytest.raises(Conflict, match="another content"):
        fakes.client.find(agent)


def test_a_pod_that_only_a_sidecar_keeps_alive_says_so() -> None:
    fakes = Fakes()
    fakes.add_job(1)
    pod = fakes.add_pod(0, "Running")
    ended = {"name": "job", "state": {"terminated": {"exitCode": 3}}}
    beside = {"name": "istio-proxy", "state": {"running": {}}}
    pod["status"]["containerStatuses"] = [beside, ended]
    why = "the job has ended with exit code 3, but not its pod, in which istio-proxy runs"

    status = fakes.client.state(RUN)
    lines = fakes.client.reconcile(RUN)

    assert (status.state, status.reason, status.nodes[0].reason) == (State.RUNNING, why, why)
    assert lines == [f"deleted the pod {RUN}-0-1: {why}"]
    assert [sent[0] for sent in fakes.cluster.sent] == ["DELETE"]


def test_a_sidecar_that_fails_after_the_job_is_named() -> None:
    fakes = Fakes(ends=False)
    job = fakes.add_job(1)
    job["status"] = {"failedIndexes": "0", "conditions": [{"type": "Failed", "status": "True"}]}
    pod = fakes.add_pod(0, "Failed")
    pod["status"]["containerStatuses"] = [
        {"name": "job", "state": {"terminated": {"exitCode": 0}}},
        {"name": "proxy", "state": {"terminated": {"exitCode": 1}}},
    ]

    status = fakes.client.state(RUN)

    assert (status.state, status.exit_code) == (State.FAILED, 0)
    assert (
        status.reason == "the job has ended with exit code 0, but not another container of its pod"
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"reason": "DeadlineExceeded"}, "its container had not started 1060 s after a node took"),
        ({}, ""),
    ],
)
def test_a_node_that_knows_no_end_of_a_container_says_no_exit_code(
    said: dict[str, str], reason: str
) -> None:
    """https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/status/status_manager.go (TerminatePod)"""
    fakes = Fakes(timeout_s=20)
    fakes.add_job()["status"] = {"failedIndexes": "0"}
    pod = fakes.add_pod(0, "Failed")
    ended = {"exitCode": 137, "reason": "ContainerStatusUnknown"}
    pod["status"] |= {
        **said,
        "containerStatuses": [{"name": "job", "state": {"terminated": ended}}],
    }
    pod["spec"] = {"activeDeadlineSeconds": 1060}

    node = fakes.client.state(RUN).nodes[0]

    assert (node.state, node.exit_code) == (State.FAILED, None)
    assert node.reason.startswith(reason)


@pytest.mark.parametrize(
    ("condition", "marks", "state"),
    [
        ("Suspended", {CANCELLED: "true"}, State.CANCELLED),
        ("Failed", {}, State.FAILED),
        ("FailureTarget", {}, State.WAITING),  # other pods are still to end
    ],
)
def test_an_attempt_that_ended_with_its_job_is_not_reclaimed(
    condition: str, marks: dict[str, str], state: State
) -> None:
    """Its pod is gone: a Job that is suspended or fails deletes its pods."""
    fakes = Fakes(max_failed=1)
    job = fakes.add_job(2, suspend=True)
    job["metadata"]["annotations"] = marks
    job["status"] = {"failedIndexes": "1", "conditions": [{"type": condition, "status": "True"}]}
    fakes.add_pod(1, "Failed")
    fakes.store[f"runs/{RUN}/ends/0/1/0-143-stopped"] = b""

    status = fakes.client.state(RUN)

    assert status.state is state
    assert [(a.exit_code, a.reclaimed) for a in status.nodes[0].attempts] == [(143, False)]


def test_the_pod_of_a_lost_node_says_so_while_it_stays() -> None:
    fakes = Fakes()
    fakes.add_job(1)
    pod = fakes.add_pod(0, "Running")
    lost = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    pod["status"]["conditions"] = [lost]

    status = fakes.client.state(RUN)

    assert status.state is State.RUNNING
    assert status.reason.startswith("its pod is still to end: the node was lost")
    assert status.nodes[0].reason == status.reason


def test_a_run_whose_job_somebody_has_deleted_is_gone() -> None:
    assert Fakes().client.state(RUN).state is State.GONE


def test_a_job_without_a_record_is_gone() -> None:
    fakes = Fakes()
    fakes.add_job()
    del fakes.store[f"runs/{RUN}/record.json"]

    assert fakes.client.state(RUN).state is State.GONE


def test_a_job_that_waits_says_what_its_pod_waits_for() -> None:
    fakes = Fakes()
    fakes.add_job()
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    status = fakes.add_pod(0, "Pending")["status"]
    status["containerStatuses"] = [{"name": "job", "state": state}]

    assert fakes.client.state(RUN)[:2] == (
        State.WAITING,
        "the image cannot be pulled: no such image",
    )
