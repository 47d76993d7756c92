"""The Job controller: it has each job looked at, and deletes those whose time to live is over.

https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from runspec_emulators.kubernetes.api import deletion
from runspec_emulators.kubernetes.api.defaults import TRACKING
from runspec_emulators.kubernetes.controllers.job_round import Round, Tracked, is_finished
from runspec_emulators.kubernetes.resources import JOBS, PODS
from runspec_emulators.kubernetes.world import (
    Object,
    World,
    age_s,
    condition,
    copied,
    has_ended,
    is_terminating,
)

MANAGER = "kubernetes.io/job-controller"


class Controller:
    """Brings all jobs to what their specs say. The lock of the world is held."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tracked: dict[str, Tracked] = {}

    def sync(self) -> None:
        pods: dict[str, list[Object]] = {}
        for pod in self._world.all(PODS):
            for owner in pod["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "Job" and owner.get("controller"):
                    pods.setdefault(owner["uid"], []).append(pod)
        jobs = list(self._world.all(JOBS))
        for job in jobs:
            mine = pods.pop(job["metadata"]["uid"], [])
            # The built-in controller "skips reconciling Jobs with a custom value for this field":
            # JobSpec.
            if job["spec"].get("managedBy", MANAGER) == MANAGER:
                self._sync(job, mine)
        # A finalizer that nobody drops would keep such a pod for ever.
        for orphans in pods.values():  # their job is gone
            self._let_go(orphans)

    def _let_go(self, pods: list[Object]) -> None:
        for pod in pods:
            deletion.drop_finalizer(self._world, PODS, pod, TRACKING)

    def _sync(self, job: Object, pods: list[Object]) -> None:
        if is_terminating(job):
            self._let_go(pods)
        elif is_finished(job):
            self._let_go([p for p in pods if has_ended(p) or is_terminating(p)])
            self._expire(job)
        else:
            tracked = self._tracked.setdefault(job["metadata"]["uid"], Tracked())
            Round(self._world, copied(job), pods, tracked).run()

    def _expire(self, job: Object) -> None:
        """Delete a job whose time to live is over.

        https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
        """
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        ended = condition(job, "Complete") or condition(job, "Failed") or {}
        left = ttl - age_s(ended["lastTransitionTime"])
        if left > 0:
            self._world.wake_in(left)
        else:
            # "When the TTL controller cleans up a Job, it will delete the Job cascadingly."
            deletion.delete(self._world, JOBS, job, {"propagationPolicy": "Foreground"})
