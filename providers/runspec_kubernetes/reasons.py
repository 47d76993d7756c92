"""Why a pod waits or has failed, and why a Job makes no pods, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_kubernetes.job import CONTAINER

Object = Mapping[str, Any]
# https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff,
# https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/types.go
PULLING = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
BROKEN = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
DISRUPTIONS = {
    "PreemptionByScheduler": "a pod with a higher priority took its place",
    "DeletionByTaintManager": "the node was lost, or got a taint that the pod does not tolerate",
    "EvictionByEvictionAPI": "the pod was evicted",
    "DeletionByPodGC": "the node is gone",
    "TerminationByKubelet": "the node shut down, or was short of memory or disk",
}


def condition(body: Object, kind: str) -> Object:
    """Return the condition of that type; empty if there is none."""
    listed = body.get("status", {}).get("conditions") or ()
    return next((entry for entry in listed if entry.get("type") == kind), {})


def is_true(body: Object, kind: str) -> bool:
    """Return whether the condition of that type holds."""
    return bool(condition(body, kind).get("status") == "True")


def container_state(body: Object) -> Object:
    """Return the state of the container of a pod: `waiting`, `running` or `terminated`."""
    statuses = body.get("status", {}).get("containerStatuses") or ()
    status: Object = next((status for status in statuses if status.get("name") == CONTAINER), {})
    return status.get("state") or {}


def others(body: Object) -> list[str]:
    """Return the names of other containers that have not ended, such as those that an admission webhook has added.

    Sidecars that are containers of initialization are not among them: the node ends these.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#sidecar-containers-and-pod-lifecycle
    """
    statuses = body.get("status", {}).get("containerStatuses") or ()
    alive = [status for status in statuses if "terminated" not in (status.get("state") or {})]
    return [status["name"] for status in alive if status["name"] != CONTAINER]


def held(body: Object) -> str:
    """Return why a pod whose job has ended is alive."""
    code = container_state(body)["terminated"].get("exitCode")
    return f"the job has ended with exit code {code}, but not its pod, in which {', '.join(others(body))} runs"


def disruption(body: Object) -> str:
    """Return why a pod was ended that has not failed by itself."""
    entry = condition(body, "DisruptionTarget")
    known = DISRUPTIONS.get(entry.get("reason", ""), "the pod was disrupted")
    said = entry.get("message", "").strip()
    return f"{known}: {said}" if said else known


def pod_failure(body: Object) -> str:
    """Return why a pod has failed, if that is more than the exit code of its program."""
    status = body.get("status", {})
    ended = container_state(body).get("terminated") or {}
    if ended.get("reason") == "OOMKilled":
        return "out of memory: the kernel killed it (OOMKilled); ask for more with cluster: {memory: ...}"
    if status.get(
        "reason"
    ):  # the node has ended the pod, or rejected it: rejectPod in pkg/kubelet/kubelet.go
        return f"{status['reason']}: {status.get('message', '')}".rstrip(": ")
    if ended.get("exitCode") == 0:
        return "the job has ended with exit code 0, but not another container of its pod"
    if ended.get("reason") in ("ContainerCannotRun", "StartError"):
        return f"its image cannot start the agent: {ended.get('message', '')}".rstrip(": ")
    return ""


def waiting(body: Object) -> str:
    """Return why a pod does not run yet."""
    state = container_state(body).get("waiting") or {}
    reason, said = state.get("reason", ""), state.get("message", "")
    if reason in PULLING:
        return f"the image cannot be pulled: {said or reason}"
    if reason in BROKEN:
        return f"the container cannot be made: {said or reason}"
    scheduled = condition(body, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"no node takes the pod: {scheduled.get('message') or scheduled.get('reason', '')}"
    gates = body.get("spec", {}).get("schedulingGates")
    if gates:
        return f"the pod waits for {gates[0].get('name')}"
    if reason == "ContainerCreating" or not reason:
        return "the node pulls the image and makes the container" if scheduled else ""
    return f"{reason}: {said}".rstrip(": ")
