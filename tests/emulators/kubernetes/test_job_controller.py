"""The Job controller: pods are made, their ends are counted, and jobs finish as the documentation says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.kubernetes.world import Object
from tests.emulators.kubernetes.bench import JOBS_PATH, PODS_PATH, Bench, indexed, job

FAILURES = "batch.kubernetes.io/job-index-failure-count"
RULES = {
    "disruption": {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    "index": {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}},
    "job": {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}},
}


def status(bench: Bench, name: str = "j") -> Object:
    return dict(bench.get(f"{JOBS_PATH}/{name}")["status"])


def conditions(bench: Bench) -> list[tuple[str, str, str]]:
    given = status(bench).get("conditions", ())
    return [(c["type"], c["status"], c["reason"]) for c in given]


def by_index(bench: Bench) -> dict[str, Object]:
    """Return the pods that have not ended, by index."""
    label = "batch.kubernetes.io/job-completion-index"
    waiting = [p for p in bench.pods() if p["status"]["phase"] == "Pending"]
    return {p["metadata"]["labels"][label]: p for p in waiting}


def test_pods_of_an_indexed_job_know_their_index(bench: Bench) -> None:
    made = bench.make(JOBS_PATH, indexed(completions=2, backoffLimitPerIndex=1))
    bench.step()

    pods = by_index(bench)
    first, uid = pods["0"], made["metadata"]["uid"]
    assert sorted(pods) == ["0", "1"]
    assert first["metadata"]["name"].startswith("j-0-")
    assert first["spec"]["hostname"] == "j-0"
    assert first["metadata"]["annotations"] == {
        "batch.kubernetes.io/job-completion-index": "0",
        "batch.kubernetes.io/job-index-failure-count": "0",
    }
    assert first["metadata"]["labels"] == {
        "batch.kubernetes.io/job-completion-index": "0",
        "batch.kubernetes.io/job-name": "j",
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }
    assert first["spec"]["containers"][0]["env"][-1]["name"] == "JOB_COMPLETION_INDEX"
    assert status(bench)["active"] == 2


def test_a_job_is_complete_when_each_index_has_succeeded(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=5, parallelism=2))
    for _ in range(3):
        bench.step()
        for pod in by_index(bench).values():
            bench.end(pod)

    kept = status(bench)
    assert (kept["completedIndexes"], kept["succeeded"]) == ("0-4", 5)
    reached = "CompletionsReached"
    assert conditions(bench) == [
        ("SuccessCriteriaMet", "True", reached),
        ("Complete", "True", reached),
    ]
    assert "active" not in kept
    assert kept["completionTime"]


def test_an_index_is_tried_again_until_its_limit(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=2, backoffLimitPerIndex=1))
    bench.step()
    bench.end(by_index(bench)["0"], 1)

    again = by_index(bench)["0"]
    count = again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
    assert count == "1"
    bench.end(again, 1)
    assert (status(bench)["failedIndexes"], sorted(by_index(bench))) == ("0", ["1"])
    bench.end(by_index(bench)["1"])
    assert conditions(bench)[-1] == ("Failed", "True", "FailedIndexes")


def test_a_disruption_is_no_failure(bench: Bench) -> None:
    policy = {"rules": [RULES["disruption"]]}
    bench.make(JOBS_PATH, indexed(completions=1, backoffLimitPerIndex=0, podFailurePolicy=policy))
    bench.step()
    bench.end(by_index(bench)["0"], 143, "DisruptionTarget")

    again = by_index(bench)["0"]["metadata"]["annotations"]
    assert again["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert again["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"
    assert status(bench).get("failed", 0) == 0


def test_exit_codes_fail_an_index_or_the_job(bench: Bench) -> None:
    policy = {"rules": [RULES["index"], RULES["job"]]}
    bench.make(JOBS_PATH, indexed(completions=3, backoffLimitPerIndex=5, podFailurePolicy=policy))
    bench.step()
    bench.end(by_index(bench)["0"], 9)
    assert status(bench)["failedIndexes"] == "0"

    last = by_index(bench)["1"]
    bench.end(last, 7)
    for pod in by_index(bench).values():  # it is deleted, and its node says how it ended
        bench.end(pod, 143)

    name = f"default/{last['metadata']['name']}"
    message = (
        f"Container job for pod {name} failed with exit code 7 matching FailJob rule at index 1"
    )
    failed = status(bench)["conditions"][-1]
    assert (failed["type"], failed["reason"]) == ("Failed", "PodFailurePolicy")
    assert failed["message"] == message


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"backoffLimit": 0}, "BackoffLimitExceeded"),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}, "MaxFailedIndexesExceeded"),
    ],
)
def test_too_many_failures_end_a_job(bench: Bench, spec: Any, reason: str) -> None:
    bench.make(JOBS_PATH, indexed(completions=2, **spec))
    bench.step()
    bench.end(by_index(bench)["0"], 1)
    assert conditions(bench) == [("FailureTarget", "True", reason)]

    bench.end(by_index(bench)["1"], 143)

    assert conditions(bench) == [("FailureTarget", "True", reason), ("Failed", "True", reason)]


def test_a_suspended_job_has_no_pods_and_its_clock_begins_anew(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(suspend=True))
    bench.step()
    assert (bench.pods(), conditions(bench)) == ([], [("Suspended", "True", "JobSuspended")])
    assert "startTime" not in status(bench)

    patch = {"spec": {"suspend": False}}
    bench.call("PATCH", f"{JOBS_PATH}/j", patch, "application/merge-patch+json")
    bench.step()

    assert len(bench.pods()) == 3
    assert conditions(bench) == [("Suspended", "False", "JobResumed")]
    assert "startTime" in status(bench)


def test_suspending_deletes_pods_and_counts_no_failure(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed())
    bench.step()

    patch = {"spec": {"suspend": True}}
    bench.call("PATCH", f"{JOBS_PATH}/j", patch, "application/strategic-merge-patch+json")
    bench.step()
    ending = bench.pods()
    for pod in ending:
        bench.end(pod, 143)

    assert all("deletionTimestamp" in p["metadata"] for p in ending)
    assert status(bench).get("failed", 0) == 0


def test_a_job_that_takes_too_long_fails(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=1, activeDeadlineSeconds=1))
    bench.step()

    def earlier(changed: Object) -> None:
        changed["status"]["startTime"] = "2020-01-01T00:00:00Z"

    jobs = bench.cluster.objects["jobs.batch"]
    with bench.cluster.lock:
        earlier(jobs["default", "j"])
    bench.step()

    assert conditions(bench) == [("FailureTarget", "True", "DeadlineExceeded")]


def test_a_finished_job_is_deleted_after_its_time_to_live(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=1, ttlSecondsAfterFinished=0))
    bench.step()
    bench.end(by_index(bench)["0"])
    bench.step()

    assert bench.call("GET", f"{JOBS_PATH}/j")[0] == 404
    assert bench.pods() == []


def test_a_refused_pod_is_an_event_of_its_job(bench: Bench) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    bench.make("/api/v1/namespaces/default/resourcequotas", quota)
    bench.make(JOBS_PATH, indexed(completions=2))
    bench.step(1)

    events = bench.get("/api/v1/namespaces/default/events?fieldSelector=reason=FailedCreate")
    message = events["items"][0]["message"]
    assert message.startswith('Error creating: pods "j-1-')
    why = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    assert message.endswith(f'" is forbidden: {why}')
    assert bench.get("/api/v1/namespaces/default/resourcequotas/q")["status"]["used"] == {
        "pods": "1"
    }


def test_a_job_is_deleted_after_its_pods_in_the_foreground(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=1))
    bench.step()
    pod = by_index(bench)["0"]

    code, value = bench.call("DELETE", f"{JOBS_PATH}/j", {"propagationPolicy": "Foreground"})
    bench.step()

    assert (code, value["metadata"]["finalizers"]) == (200, ["foregroundDeletion"])
    assert "deletionTimestamp" in bench.get(f"{JOBS_PATH}/j")["metadata"]
    forced = f"{PODS_PATH}/{pod['metadata']['name']}?gracePeriodSeconds=0"
    bench.call("DELETE", forced)
    bench.step()
    assert bench.call("GET", f"{JOBS_PATH}/j")[0] == 404


def test_pods_of_an_orphaned_job_stay(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=1))
    bench.step()

    bench.call("DELETE", f"{JOBS_PATH}/j", {"propagationPolicy": "Orphan"})
    bench.step()

    assert bench.call("GET", f"{JOBS_PATH}/j")[0] == 404
    (pod,) = bench.pods()
    assert not pod["metadata"].get("ownerReferences")


def test_a_plain_job_makes_its_pods_one_after_the_other(bench: Bench) -> None:
    bench.make(JOBS_PATH, job(completions=2, parallelism=1, backoffLimit=1))
    bench.step()
    (first,) = bench.pods()
    bench.end(first, 1)
    second = next(p for p in bench.pods() if p["status"]["phase"] == "Pending")
    bench.end(second)
    third = next(p for p in bench.pods() if p["status"]["phase"] == "Pending")
    bench.end(third)

    kept = status(bench)
    assert (kept["succeeded"], kept["failed"]) == (2, 1)
    assert conditions(bench)[-1] == ("Complete", "True", "CompletionsReached")


def suspend(bench: Bench, value: bool) -> None:
    patch = {"spec": {"suspend": value}}
    bench.call("PATCH", f"{JOBS_PATH}/j", patch, "application/merge-patch+json")
    bench.step()


def test_after_a_suspension_an_index_counts_its_failures_anew(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=1, backoffLimitPerIndex=3))
    bench.step()
    bench.end(by_index(bench)["0"], 1)
    second = by_index(bench)["0"]
    suspend(bench, True)
    bench.end(second, 143)
    assert "startTime" not in status(bench)

    suspend(bench, False)

    (third,) = (p for p in by_index(bench).values() if p is not second)
    assert second["metadata"]["annotations"][FAILURES] == "1"
    assert third["metadata"]["annotations"][FAILURES] == "0"


def test_an_index_keeps_its_place_while_it_waits_to_be_tried_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, retry_s=60.0)
    bench.make(JOBS_PATH, indexed(completions=3, parallelism=1, backoffLimitPerIndex=3))
    bench.step()
    bench.end(by_index(bench)["0"], 1)

    assert by_index(bench) == {}
    bench.close()


def test_a_pod_that_succeeds_while_its_job_fails_completes_no_index(bench: Bench) -> None:
    bench.make(JOBS_PATH, indexed(completions=2, backoffLimitPerIndex=0, maxFailedIndexes=0))
    bench.step()
    bench.end(by_index(bench)["0"], 1)
    bench.end(by_index(bench)["1"], 0)

    kept = status(bench)
    assert conditions(bench)[-1] == ("Failed", "True", "MaxFailedIndexesExceeded")
    assert (kept["failedIndexes"], kept.get("completedIndexes"), kept["failed"]) == ("0", None, 2)
