"""The pods of a job: they are made from its template.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from __future__ import annotations

from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.kubernetes.api import deletion, objects
from runspec_emulators.kubernetes.api.defaults import PREFIX, TRACKING
from runspec_emulators.kubernetes.controllers.indexes import INDEX
from runspec_emulators.kubernetes.resources import JOBS, PODS
from runspec_emulators.kubernetes.world import Object, World, copied

SOURCE = "job-controller"
FAILURES = f"{PREFIX}job-index-failure-count"
IGNORED = f"{PREFIX}job-index-ignored-failure-count"


def create(
    world: World, job: Object, index: int | None, counts: tuple[int, int] | None
) -> ServiceError | None:
    """Create a pod of a job, and report an event; return why it could not be.

    *counts* are the failures of its index until now, and those that were ignored.
    """
    made = _make_pod(job, index, counts)
    try:
        pod = objects.add(world, PODS, made, job["metadata"]["namespace"])
    except ServiceError as exc:
        world.add_event(
            job, JOBS, "Warning", "FailedCreate", f"Error creating: {exc.message}", SOURCE
        )
        return exc
    message = f"Created pod: {pod['metadata']['name']}"
    world.add_event(job, JOBS, "Normal", "SuccessfulCreate", message, SOURCE)
    return None


def _make_pod(job: Object, index: int | None, counts: tuple[int, int] | None) -> Object:
    """Return a pod of the template of a job, with what tells the controller whose it is."""
    meta, template = job["metadata"], copied(job["spec"]["template"])
    labels = template["metadata"].get("labels") or {}
    annotations = template["metadata"].get("annotations") or {}
    spec = template["spec"]
    prefix = f"{meta['name']}-"
    if index is not None:
        prefix += f"{index}-"
        # Both: the label is newer, so that pods can be selected by index (PodIndexLabel, 1.28).
        annotations[INDEX] = labels[INDEX] = str(index)
        # "Pod hostnames take the form $(job-name)-$(index)", by which peers find each other.
        spec["hostname"] = f"{meta['name']}-{index}"
        for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
            _add_index(container)
    if counts is not None:
        annotations[FAILURES] = str(counts[0])
        if counts[1]:
            annotations[IGNORED] = str(counts[1])
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        # With it, foreground deletion of the job waits until the pod is gone.
        "blockOwnerDeletion": True,
    }
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": prefix,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [*(template["metadata"].get("finalizers") or ()), TRACKING],
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
    if not annotations:
        del made["metadata"]["annotations"]
    return made


def _add_index(container: Object) -> None:
    """ "the JOB_COMPLETION_INDEX environment variable" """
    env = container.setdefault("env", [])
    # A variable of that name in the template stays: addCompletionIndexEnvVariable in
    # pkg/controller/job/indexed_job_utils.go.
    if not any(v["name"] == "JOB_COMPLETION_INDEX" for v in env):
        field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
        env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}})


def remove(world: World, job: Object, pod: Object, *, counted: bool) -> None:
    """Delete a pod of a job. One that is not to be *counted* as failed loses its finalizer first."""
    if not counted:
        # The controller counts only pods that have the finalizer.
        deletion.drop_finalizer(world, PODS, pod, TRACKING)
    meta = pod["metadata"]
    kept = world.get(PODS, meta["namespace"], meta["name"])
    if kept is None:
        return
    deletion.delete(world, PODS, kept)
    message = f"Deleted pod: {meta['name']}"
    world.add_event(job, JOBS, "Normal", "SuccessfulDelete", message, SOURCE)
