"""Kueue: it suspends the jobs of its queues, says why they wait, and starts them.

https://kueue.sigs.k8s.io/docs/concepts/workload/, https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
"""

from __future__ import annotations

from runspec_emulators.kubernetes.api import names
from runspec_emulators.kubernetes.resources import JOBS, KUEUE, LOCAL_QUEUES, WORKLOADS
from runspec_emulators.kubernetes.world import (
    Object,
    World,
    condition,
    key_of,
    now,
    set_condition,
)

QUEUE, UID = f"{KUEUE}/queue-name", f"{KUEUE}/job-uid"


def sync(world: World) -> None:
    """Have each job of a queue wait or run. The lock of the world is held."""
    if not world.settings.kueue:
        return
    for local in list(world.all(LOCAL_QUEUES)):
        world.change(LOCAL_QUEUES, *key_of(local), _open)
    workloads = {(w["metadata"].get("labels") or {}).get(UID): w for w in world.all(WORKLOADS)}
    for job in list(world.all(JOBS)):
        queue = (job["metadata"].get("labels") or {}).get(QUEUE)
        if queue:
            workload = workloads.get(job["metadata"]["uid"]) or _create(world, job, queue)
            _decide(world, job, workload, queue)


def _open(queue: Object) -> None:
    said = "Can submit new workloads to localQueue"
    set_condition(queue.setdefault("status", {}), "Active", "True", "Ready", said)


def _create(world: World, job: Object, queue: str) -> Object:
    """Make the workload of a job.

    https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta1/#kueue-x-k8s-io-v1beta1-Workload
    """
    meta, spec = job["metadata"], job["spec"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    made = {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {
            "name": names.generate(f"job-{meta['name']}-"),
            "namespace": meta["namespace"],
            "uid": world.new_uid(),
            "creationTimestamp": now(),
            "labels": {UID: meta["uid"]},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "active": True,
            "queueName": queue,
            "podSets": [
                {"name": "main", "count": spec["parallelism"], "template": spec["template"]}
            ],
        },
        "status": {},
    }
    return world.put(WORKLOADS, made)


def _decide(world: World, job: Object, workload: Object, queue: str) -> None:
    finished = condition(job, "Complete") or condition(job, "Failed")
    why = _waits(world, job, queue)
    # What was admitted stays so: a queue that stops later holds back new jobs alone.
    admitted = condition(workload, "Admitted") is not None or why is None

    def mark(changed: Object) -> None:
        status = changed["status"]
        if not admitted:
            set_condition(status, "QuotaReserved", "False", "Pending", why or "")
            return
        said = "Quota reserved in ClusterQueue cluster-queue"
        set_condition(status, "QuotaReserved", "True", "QuotaReserved", said)
        set_condition(status, "Admitted", "True", "Admitted", "The workload is admitted")
        if finished:
            set_condition(status, "Finished", "True", "JobFinished", finished["message"])

    def suspend(changed: Object) -> None:
        changed["spec"]["suspend"] = not admitted

    world.change(WORKLOADS, *key_of(workload), mark)
    if not finished and (not admitted or condition(workload, "Admitted") is None):
        world.change(JOBS, *key_of(job), suspend)


def _waits(world: World, job: Object, queue: str) -> str | None:
    """Return why a job waits; None if it does not."""
    if world.get(LOCAL_QUEUES, job["metadata"]["namespace"], queue) is None:
        return f"LocalQueue {queue} doesn't exist"
    return world.settings.kueue_waits or None
