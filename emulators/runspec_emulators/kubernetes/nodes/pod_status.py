"""The status of a pod as the kubelet reports it.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

from typing import Any

from runspec_emulators.kubernetes.world import Object, now, set_condition

READY = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def container_status(container: Object, sandbox: str, state: Object, restarts: int) -> Object:
    """Return the status of a container in a state: waiting, running or terminated."""
    (kind,) = state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "" if kind == "waiting" else container["image"],
        "containerID": "" if kind == "waiting" else f"containerd://{sandbox}-{container['name']}",
        "state": state,
        "lastState": {},
        "ready": kind == "running",
        "started": kind == "running",
        "restartCount": restarts,
    }


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(
    code: int, started: str, *, reason: str = "", message: str = "", sandbox: str = ""
) -> Object:
    """Return the state of a container that has ended; its reason is Completed or Error, unless one is given."""
    reason = reason or ("Completed" if code == 0 else "Error")
    state: dict[str, Any] = {"exitCode": code, "reason": reason}
    state |= {"startedAt": started, "finishedAt": now(), "containerID": f"containerd://{sandbox}"}
    if message:
        state["message"] = message
    return {"terminated": state}


def located_nowhere() -> Object:
    """Return the state of a container of which its node knows no end: it never ran, or the node has lost it.

    https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/status/status_manager.go (TerminatePod)
    """
    message = "The container could not be located when the pod was terminated"
    state = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}
    return {"terminated": {**state, "startedAt": None, "finishedAt": None}}


def set_state(status: Object, group: str, name: str, fresh: Object) -> None:
    """Put the status of a container in its place; its last state is kept when it begins again."""
    statuses = status.setdefault(group, [])
    for number, old in enumerate(statuses):
        if old["name"] == name:
            # Only the newest end is kept, as a kubelet does: a client that asks late misses those
            # before.
            ended = old["state"] if "terminated" in old["state"] else old["lastState"]
            begins = "terminated" not in fresh["state"]
            statuses[number] = {**fresh, "lastState": ended if begins else old["lastState"]}
            return
    statuses.append(fresh)


def set_running(status: Object, address: str) -> None:
    status["phase"] = "Running"
    status |= {"podIP": address, "podIPs": [{"ip": address}], "hostIP": "127.0.0.1"}
    status.setdefault("startTime", now())
    for kind in READY:
        set_condition(status, kind, "True")


def set_ended(status: Object, phase: str, reason: str = "", message: str = "") -> None:
    """Say that a pod has ended."""
    status["phase"] = phase
    if reason:
        status |= {"reason": reason, "message": message}
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    set_condition(status, "PodReadyToStartContainers", "False")
    for kind in ("ContainersReady", "Ready"):
        set_condition(status, kind, "False", why)
