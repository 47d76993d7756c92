"""The pods of a run: which index and attempt each is, and how it has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Attempt
from runspec_jobs.provider.node_ends import NodeEnds, exited, overdue, unproven, unrecorded
from runspec_kubernetes import reasons
from runspec_kubernetes.job import FAILURES, IGNORED, INDEX

SERVICE = "Kubernetes"
Object = Mapping[str, Any]


class Pod(NamedTuple):
    """One attempt of an index."""

    name: str
    place: int  # its index in the Job
    attempt: int
    body: Object

    @property
    def phase(self) -> str:
        return str(self.body.get("status", {}).get("phase", "Pending"))

    @property
    def over(self) -> bool:
        """Whether its container has ended, or never will begin."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def held(self) -> bool:
        """Whether the container of the job has ended, and others keep the pod alive."""
        return bool(self.terminated and reasons.others(self.body)) and not self.over

    @property
    def disrupted(self) -> bool:
        """Whether the pod was evicted, preempted, or its node was lost, before it had succeeded.

        https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
        """
        return reasons.is_true(self.body, "DisruptionTarget") and self.phase != "Succeeded"

    @property
    def lingers(self) -> str:
        """Why a pod that runs does no more work, or is about to end; else empty.

        The pod of a lost node stays until the node is back or deleted:
        https://kubernetes.io/docs/concepts/architecture/nodes/#condition
        """
        if self.held:
            return reasons.held(self.body)
        return f"its pod is still to end: {reasons.disruption(self.body)}" if self.disrupted else ""

    @property
    def terminated(self) -> Object:
        """How the container has ended; empty if it has not, or if the node told nothing."""
        return reasons.container_state(self.body).get("terminated") or {}

    @property
    def unknown(self) -> bool:
        """Whether the node knows no end of the container, for which it says 137: it may never have started."""
        return self.terminated.get("reason") == "ContainerStatusUnknown"

    @property
    def exit_code(self) -> int | None:
        code = None if self.unknown else self.terminated.get("exitCode")
        return None if code is None else int(code)

    @property
    def began_s(self) -> float | None:
        state = reasons.container_state(self.body)
        began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
        return seconds(began)

    @property
    def ended_s(self) -> float | None:
        return seconds(self.terminated.get("finishedAt"))


class Return(NamedTuple):
    """A node that has come back, as an index beyond those of all nodes, after *before* attempts."""

    place: int
    node: int
    before: int


def renumber(pods: Mapping[int, list[Pod]], returns: Iterable[Return]) -> dict[int, list[Pod]]:
    """Return the pods of each node, those of its earlier indexes first; *returns* are in order."""
    merged = {index: list(of) for index, of in pods.items()}
    for each in returns:
        later = merged.pop(each.place, [])
        moved = (pod._replace(place=each.node, attempt=pod.attempt + each.before) for pod in later)
        if later:
            merged.setdefault(each.node, []).extend(moved)
    return merged


def seconds(text: Any) -> float | None:
    """Return a time of the API in seconds since 1970.

    >>> seconds("2026-11-25T10:00:00Z")
    1795600800.0
    """
    return datetime.fromisoformat(str(text)).timestamp() if text else None


def sorted_pods(listed: Iterable[Object]) -> dict[int, list[Pod]]:
    """Return the pods of a run by index, each list in the order of attempts."""
    pods: dict[int, list[Pod]] = {}
    for body in sorted(listed, key=lambda body: str(body["metadata"].get("creationTimestamp"))):
        marks = body["metadata"].get("annotations") or {}
        index = _number(marks, INDEX)
        before = _number(marks, FAILURES) + _number(marks, IGNORED)
        pods.setdefault(index, []).append(Pod(body["metadata"]["name"], index, 1 + before, body))
    return {index: sorted(of, key=lambda pod: pod.attempt) for index, of in pods.items()}


def _number(marks: Mapping[str, str], key: str) -> int:
    text = marks.get(key, "")
    return int(text) if text.isdigit() else 0


def end_names(pods: Iterable[Pod]) -> list[str]:
    """Return the names of the end records that the agents have written to the termination messages of pods."""
    lines = (line for pod in pods for line in str(pod.terminated.get("message", "")).splitlines())
    return [line for line in lines if not line.startswith("{")]


def of_pod(pod: Pod, seat: tuple[int, int], ends: NodeEnds) -> Attempt:
    """Return how the attempt of a pod that is over has ended."""
    end = ends.of((*seat, pod.attempt))
    code, reason = pod.exit_code, _reason(pod, ends)
    if end is not None and not (pod.phase == "Failed" and end.code == 0):
        code = end.code
        if not (end.told and _ended_by_node(pod)):
            reason = end.reason(ends.record)
    elif end is None and pod.phase == "Succeeded" and ends.written:
        code, reason = None, unproven(SERVICE)
    reclaimed = pod.disrupted or (end is not None and end.preempted)
    if pod.disrupted:
        reason = reasons.disruption(pod.body)
        code = None if end is None or end.told else code
    setup_s = None if end is None else end.setup_s
    return Attempt(pod.attempt, code, reason, reclaimed, pod.began_s, pod.ended_s, setup_s)


def _ended_by_node(pod: Pod) -> bool:
    """Return whether the node has ended a pod and says why, while the agent knows no more than that it was told to end.

    Pods that use more disk than they may are evicted without a disruption:
    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
    """
    return bool(pod.body.get("status", {}).get("reason"))


def _reason(pod: Pod, ends: NodeEnds) -> str:
    """Return why a pod has failed, as Kubernetes says it."""
    status = pod.body.get("status", {})
    if status.get("reason") == "DeadlineExceeded":
        if pod.unknown:
            limit_s = pod.body["spec"]["activeDeadlineSeconds"]
            return f"its container had not started {limit_s} s after a node took the pod: can its image be pulled?"
        return overdue(SERVICE, ends.record.get("timeout_s"))
    said = reasons.pod_failure(pod.body)
    if said:
        return said
    if pod.exit_code:
        text = exited(pod.exit_code)
        return unrecorded(text) if ends.written else text
    return ""
