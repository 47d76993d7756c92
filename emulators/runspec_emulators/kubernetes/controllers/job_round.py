"""One look at a job and its pods: what has ended is counted, and what is missing is made.

https://kubernetes.io/docs/concepts/workloads/controllers/job/,
https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/job/job_controller.go (syncJob, manageJob)
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

from runspec_emulators.kubernetes.api import deletion
from runspec_emulators.kubernetes.api.defaults import TRACKING
from runspec_emulators.kubernetes.controllers import failure_policy, indexes, job_pods
from runspec_emulators.kubernetes.controllers.job_pods import SOURCE
from runspec_emulators.kubernetes.resources import JOBS, PODS
from runspec_emulators.kubernetes.world import (
    Object,
    World,
    age_s,
    condition,
    has_ended,
    is_terminating,
    now,
    phase,
    set_condition,
)

MESSAGES = {
    "BackoffLimitExceeded": "Job has reached the specified backoff limit",
    "DeadlineExceeded": "Job was active longer than specified deadline",
    "FailedIndexes": "Job has failed indexes",
    "MaxFailedIndexesExceeded": "Job has exceeded the specified maximal number of failed indexes",
    "CompletionsReached": "Reached expected number of succeeded pods",
    "SuccessPolicy": "Matched rules at index 0",
}


@dataclass
class Index:
    """What is known of an index, or of a whole job without indexes."""

    failures: int = 0
    ignored: int = 0
    row: int = 0
    """Failures in a row, for the back-off."""
    ready_at: float = 0.0
    """When it may be tried again, by time.monotonic()."""


@dataclass
class Tracked:
    """What is known of a job beside its status."""

    by_index: dict[int | None, Index] = field(default_factory=dict)
    refused: int = 0
    """How often in a row a pod could not be created."""
    ready_at: float = 0.0

    def of(self, index: int | None) -> Index:
        return self.by_index.setdefault(index, Index())


def is_finished(job: Object) -> bool:
    return bool(condition(job, "Complete") or condition(job, "Failed"))


class Round:
    """One look at a job and its pods."""

    def __init__(self, world: World, job: Object, pods: list[Object], tracked: Tracked) -> None:
        self._world, self._job, self._tracked = world, job, tracked
        self._spec, self._status = job["spec"], job.setdefault("status", {})
        self._pods = pods
        self._indexed = self._spec["completionMode"] == "Indexed"
        self._per_index = "backoffLimitPerIndex" in self._spec
        self._only_failed = self._spec["podReplacementPolicy"] == "Failed"
        self._done = indexes.read(self._status.get("completedIndexes", ""))
        self._lost = indexes.read(self._status.get("failedIndexes", ""))

    def run(self) -> None:
        # A job that is created suspended gets its start time when it is first resumed:
        # JobStatus.startTime.
        fresh = "startTime" not in self._status
        if fresh and not self._spec["suspend"]:
            self._status["startTime"] = now()
        # A pod with the finalizer is not counted yet, and cannot vanish before it is:
        # https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-tracking-with-finalizers
        for pod in self._pods:
            if TRACKING in (pod["metadata"].get("finalizers") or ()):
                self._count(pod)
        self._pods = [
            kept
            for p in self._pods
            if (kept := self._world.get(PODS, p["metadata"]["namespace"], p["metadata"]["name"]))
        ]
        self._decide()
        if self._goal is not None:
            self._wind_up()
        elif self._spec["suspend"]:
            self._suspend()
        else:
            self._resume()
            self._scale()
        self._write()

    @property
    def _goal(self) -> str | None:
        """The condition that the job is to have when its pods are gone."""
        if self._has("FailureTarget"):
            return "Failed"
        return "Complete" if self._has("SuccessCriteriaMet") else None

    def _has(self, kind: str) -> Object | None:
        return condition(self._job, kind)

    # What has ended.

    def _count(self, pod: Object) -> None:
        # A pod that is deleted may never reach a last phase, as on a lost node, so it counts as failed
        # unless podReplacementPolicy says Failed: isPodFailed in pkg/controller/job/job_controller.go.
        gives_up = is_terminating(pod) and not self._only_failed and phase(pod) != "Succeeded"
        index = indexes.of_pod(pod) if self._indexed else None
        if phase(pod) == "Succeeded":
            self._succeeded(index)
        elif phase(pod) == "Failed" or gives_up:
            self._failed(pod, index)
        else:
            return
        # Only now may the pod vanish: the other order would lose its end.
        deletion.drop_finalizer(self._world, PODS, pod, TRACKING)

    def _succeeded(self, index: int | None) -> None:
        self._tracked.of(index).row = 0
        if not self._indexed:
            self._status["succeeded"] = self._status.get("succeeded", 0) + 1
        elif index is not None and index < self._spec["completions"] and index not in self._lost:
            self._done.add(index)

    def _failed(self, pod: Object, index: int | None) -> None:
        verdict = failure_policy.judge(self._job, pod)
        known = self._tracked.of(index if self._per_index else None)
        # Before the verdict: failures that the policy ignores lengthen the back-off too, as with
        # getRemainingTimePerIndex in pkg/controller/job/backoff_utils.go.
        known.row += 1
        wait_s = self._world.settings.retry_s * 2 ** min(known.row - 1, 30)
        known.ready_at = time.monotonic() + min(wait_s, self._world.settings.retry_most_s)
        if verdict.action == "Ignore":
            known.ignored += 1
            return
        self._status["failed"] = self._status.get("failed", 0) + 1
        known.failures += 1
        # The first reason stays: a job that is to fail already keeps its message.
        if verdict.action == "FailJob" and self._goal is None:
            self._target("PodFailurePolicy", verdict.message)
        if self._per_index and index is not None and index not in self._done:
            over = known.failures > self._spec["backoffLimitPerIndex"]
            if over or verdict.action == "FailIndex":
                self._lost.add(index)

    # What becomes of the job.

    def _target(self, reason: str, message: str = "") -> None:
        set_condition(self._status, "FailureTarget", "True", reason, message or MESSAGES[reason])

    def _decide(self) -> None:
        """Set what the job is to end with, if it is to end."""
        if self._goal is not None:
            return
        spec, started = self._spec, self._status.get("startTime")
        limit = spec.get("activeDeadlineSeconds")
        # backoffLimit is a number of retries: one failure more than that ends the job. Failures come
        # before the deadline, as in syncJob of pkg/controller/job/job_controller.go.
        if self._status.get("failed", 0) > spec["backoffLimit"]:
            self._target("BackoffLimitExceeded")
        elif limit is not None and started and not spec["suspend"] and age_s(started) >= limit:
            self._target("DeadlineExceeded")
        # Without maxFailedIndexes, all indexes are tried, however many fail.
        elif self._per_index and len(self._lost) > spec.get("maxFailedIndexes", len(self._lost)):
            self._target("MaxFailedIndexesExceeded")
        elif self._is_done():
            self._succeed("CompletionsReached")
        elif self._lost and len(self._done | self._lost) >= spec["completions"]:
            self._target("FailedIndexes")
        # Last: where another policy ends the job, the controller "respects the terminating policy and
        # ignores the success policy".
        elif self._fits_success_policy():
            self._succeed("SuccessPolicy")
        elif limit is not None and started:
            self._world.wake_in(limit - age_s(started))

    def _succeed(self, reason: str) -> None:
        set_condition(self._status, "SuccessCriteriaMet", "True", reason, MESSAGES[reason])

    def _is_done(self) -> bool:
        completions = self._spec.get("completions")
        if self._indexed:
            return len(self._done) >= int(self._spec["completions"])
        succeeded: int = self._status.get("succeeded", 0)
        if completions is None:  # "the success of any pod signals the success of all pods"
            return succeeded > 0 and not self._active()
        return succeeded >= int(completions)

    def _fits_success_policy(self) -> bool:
        """https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy"""
        for rule in self._spec.get("successPolicy", {}).get("rules") or ():
            wanted = indexes.read(rule["succeededIndexes"]) if "succeededIndexes" in rule else None
            done = self._done if wanted is None else self._done & wanted
            if len(done) >= rule.get("succeededCount", len(wanted or done) or 1):
                return True
        return False

    def _wind_up(self) -> None:
        """End all pods; when they have ended, the job has. How they end counts for nothing: see canRemoveFinalizer."""
        for pod in self._active():
            job_pods.remove(self._world, self._job, pod, counted=True)
        self._reload()
        for pod in self._pods:
            if TRACKING in (pod["metadata"].get("finalizers") or ()):
                ignored = failure_policy.judge(self._job, pod).action == "Ignore"
                if self._has("FailureTarget") and not ignored:
                    self._status["failed"] = self._status.get("failed", 0) + 1
                deletion.drop_finalizer(self._world, PODS, pod, TRACKING)
        self._reload()
        # The last condition waits for the pods, so that nothing of a job runs any more that has ended:
        # https://kubernetes.io/docs/concepts/workloads/controllers/job/#terminal-job-conditions
        if any(not has_ended(p) for p in self._pods):
            return
        goal = self._goal or ""
        source = self._has("FailureTarget") or self._has("SuccessCriteriaMet") or {}
        reason, message = source["reason"], source["message"]
        set_condition(self._status, goal, "True", reason, message)
        if goal == "Complete":
            self._status["completionTime"] = now()
            self._say("Normal", "Completed", "Job completed")
        else:
            self._say("Warning", reason, message)

    def _suspend(self) -> None:
        # Pods that end because of a suspension are neither successes nor failures:
        # https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job
        for pod in self._active():
            self._give_up(pod)
        if set_condition(self._status, "Suspended", "True", "JobSuspended", "Job suspended"):
            # MutableSchedulingDirectivesForSuspendedJobs, which is on since 1.36:
            # https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job
            self._status.pop("startTime", None)
            self._say("Normal", "Suspended", "Job suspended")
        self._reload()

    def _give_up(self, pod: Object) -> None:
        """Delete a pod that does not count: the next of its index has no pod whose counts it could go on from.

        https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/job/indexed_job_utils.go
        (getNewIndexFailureCounts)
        """
        if self._per_index:
            self._tracked.by_index.pop(indexes.of_pod(pod), None)
        job_pods.remove(self._world, self._job, pod, counted=False)

    def _resume(self) -> None:
        if self._has("Suspended"):
            set_condition(self._status, "Suspended", "False", "JobResumed", "Job resumed")
            self._status["startTime"] = now()
            self._say("Normal", "Resumed", "Job resumed")

    # Pods.

    def _active(self) -> list[Object]:
        return [p for p in self._pods if not has_ended(p) and not is_terminating(p)]

    def _ending(self) -> list[Object]:
        return [p for p in self._pods if not has_ended(p) and is_terminating(p)]

    def _reload(self) -> None:
        self._pods = self._world.owned(
            PODS, self._job["metadata"]["uid"], self._job["metadata"]["namespace"]
        )

    def _scale(self) -> None:
        """Create pods that are missing, and delete those that are too many."""
        wanted, active = self._spec["parallelism"], self._active()
        ending = len(self._ending()) if self._only_failed else 0
        completions = self._spec.get("completions")
        if completions is None:
            # "When any Pod from the Job terminates with success, no new Pods are created":
            # https://kubernetes.io/docs/concepts/workloads/controllers/job/#parallel-jobs
            wanted = len(active) if self._status.get("succeeded") else wanted
        elif self._indexed:
            # The pods at once "will not exceed the number of remaining completions":
            # https://kubernetes.io/docs/concepts/workloads/controllers/job/#controlling-parallelism
            wanted = min(wanted, completions - len(self._done | self._lost))
        else:
            wanted = min(wanted, completions - self._status.get("succeeded", 0))
        for pod in active[wanted:] if len(active) > wanted else ():
            self._give_up(pod)
        if len(active) + ending < wanted:
            self._create(wanted - len(active) - ending)
        self._reload()

    def _create(self, number: int) -> None:
        left = self._tracked.ready_at - time.monotonic()
        if left > 0:
            self._world.wake_in(left)
            return
        for index in self._next(number):
            known = self._tracked.of(index)
            counts = (known.failures, known.ignored) if self._per_index else None
            why = job_pods.create(self._world, self._job, index, counts)
            if why is not None:
                # One refusal speaks for all: the next pod would meet the same quota.
                self._tracked.refused += 1
                wait_s = self._world.settings.retry_s * 2 ** min(self._tracked.refused, 10)
                self._tracked.ready_at = time.monotonic() + wait_s
                self._world.wake_in(wait_s)
                return
        self._tracked.refused = 0

    def _next(self, number: int) -> list[int | None]:
        """Return the indexes of the next pods: the lowest, without those whose back-off is not over.

        An index that waits keeps its place: getPodCreationInfoForIndependentIndexes looks at no further ones.
        """
        if not self._per_index and (left := self._tracked.of(None).ready_at - time.monotonic()) > 0:
            self._world.wake_in(left)
            return []
        if not self._indexed:
            return [None] * number
        # With podReplacementPolicy Failed, an index is free only when its old pod has ended.
        held = self._active() + (self._ending() if self._only_failed else [])
        taken = {indexes.of_pod(p) for p in held} | self._done | self._lost
        missing = (index for index in range(self._spec["completions"]) if index not in taken)
        free: list[int | None] = []
        for index in itertools.islice(missing, number):
            left = self._tracked.of(index).ready_at - time.monotonic() if self._per_index else 0
            if left > 0:
                self._world.wake_in(left)
            else:
                free.append(index)
        return free

    # The status.

    def _write(self) -> None:
        status, active = self._status, self._active()
        if self._indexed:
            _set(status, "completedIndexes", indexes.write(self._done))
            status["succeeded"] = len(self._done)
        if self._per_index:
            # A pointer in JobStatus of batch/v1, so that an empty text is shown; completedIndexes is a
            # string, which is left out.
            status["failedIndexes"] = indexes.write(self._lost)
        _set(status, "active", 0 if is_finished(self._job) else len(active))
        _set(status, "succeeded", status.get("succeeded", 0))
        status["terminating"] = len(self._ending())
        status["ready"] = sum(condition(p, "Ready") is not None for p in active)
        # The real controller counts in two requests, and names here the pods between them. Here the
        # lock is held, so there are none.
        status["uncountedTerminatedPods"] = {}
        meta = self._job["metadata"]

        def change(job: Object) -> None:
            job["status"] = status

        self._world.change(JOBS, meta["namespace"], meta["name"], change)

    def _say(self, kind: str, reason: str, message: str) -> None:
        self._world.add_event(self._job, JOBS, kind, reason, message, SOURCE)


def _set(status: Object, name: str, value: object) -> None:
    """Set a field that is left out where it is empty."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)
