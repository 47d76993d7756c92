"""The scheduler: it gives pods to nodes that have room for them, and says why there is none.

https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/,
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/. The form of its messages:
https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/,
https://github.com/NVIDIA/k8s-device-plugin/issues/421, https://github.com/NVIDIA/k8s-device-plugin/issues/430
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from runspec_emulators.kubernetes.api import deletion, quantity
from runspec_emulators.kubernetes.controllers import taints
from runspec_emulators.kubernetes.resources import CLAIMS, NODES, PODS
from runspec_emulators.kubernetes.world import (
    Object,
    World,
    has_ended,
    is_terminating,
    key_of,
    set_condition,
)

SOURCE = "default-scheduler"
NAME = "default-scheduler"
PREEMPTED = f"{NAME}: preempting to accommodate a higher priority pod"
NO_HELP = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass
class Taken:
    """What runs on a node, and what it requests in all."""

    pods: list[Object] = field(default_factory=list)
    used: dict[str, Fraction] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Iterable[Object]) -> Self:
        taken = cls()
        for pod in pods:
            taken.add(pod)
        return taken

    def add(self, pod: Object) -> None:
        self.pods.append(pod)
        for name, number in quantity.of_pod(pod["spec"]).items():
            self.used[name] = self.used.get(name, Fraction(0)) + number


def sync(world: World) -> None:
    """Bind the pods that can be, by priority and age. The lock of the world is held."""
    waiting = []
    running: dict[str, Taken] = {}
    for pod in world.all(PODS):
        if pod["spec"].get("nodeName"):
            if not has_ended(pod):
                running.setdefault(pod["spec"]["nodeName"], Taken()).add(pod)
        elif (
            not is_terminating(pod) and not has_ended(pod) and pod["spec"]["schedulerName"] == NAME
        ):
            waiting.append(pod)
    nodes = list(world.all(NODES))
    # "The scheduler orders pending Pods by their priority", and equals by age:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
    waiting.sort(key=lambda p: (-p["spec"].get("priority", 0), p["metadata"]["creationTimestamp"]))
    for pod in waiting:
        # A gate keeps a pod out of the queue, as it waits for what opens the gate:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
        if not pod["spec"].get("schedulingGates"):
            _schedule(world, pod, nodes, running)


def _schedule(world: World, pod: Object, nodes: list[Object], running: dict[str, Taken]) -> None:
    missing = _missing_claim(world, pod)
    if missing is not None:
        said = f'persistentvolumeclaim "{missing}" not found'
        none = f"0/{len(nodes)} nodes are available: "
        _refuse(world, pod, f"{none}{said}. preemption: {none}{len(nodes)} {NO_HELP}.")
        return
    why = {
        n["metadata"]["name"]: problems(pod, n, running.get(n["metadata"]["name"], Taken()))
        for n in nodes
    }
    fitting = [name for name, reasons in why.items() if not reasons]
    if fitting:
        # The emptiest node, much as LeastAllocated, the default of the real one, prefers it; the name
        # makes the choice the same in every run.
        name = min(fitting, key=lambda n: (len(running.get(n, Taken()).pods), n))
        running.setdefault(name, Taken()).add(_bind(world, pod, name))
        return
    helped = _preempt(world, pod, nodes, running)
    _refuse(world, pod, message(why), helped)


def _missing_claim(world: World, pod: Object) -> str | None:
    for volume in pod["spec"].get("volumes") or ():
        name = volume.get("persistentVolumeClaim", {}).get("claimName")
        if name and world.get(CLAIMS, pod["metadata"]["namespace"], name) is None:
            return str(name)
    return None


def problems(pod: Object, node: Object, running: Taken) -> list[str]:
    """Return why a pod does not fit on a node; empty if it does."""
    if node["spec"].get("unschedulable"):
        return ["node(s) were unschedulable"]
    taint = taints.untolerated(pod, node)
    if taint is not None:
        value = taint.get("value", "")
        return [f"node(s) had untolerated taint {{{taint['key']}: {value}}}"]
    if not taints.matches(pod, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return [*_lacking(pod, node, running)]


def _lacking(pod: Object, node: Object, running: Taken) -> Iterable[str]:
    room = {k: quantity.read(v) for k, v in node["status"]["allocatable"].items()}
    # 110 is the default of maxPods of a kubelet:
    # https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
    if len(running.pods) + 1 > room.get("pods", Fraction(110)):
        yield "Too many pods"
    for name, number in quantity.of_pod(pod["spec"]).items():
        if number and number + running.used.get(name, Fraction(0)) > room.get(name, Fraction(0)):
            yield f"Insufficient {name}"


def message(why: dict[str, list[str]]) -> str:
    """Return what the scheduler says when no node fits.

    >>> message({"a": ["Insufficient cpu"], "b": ["Insufficient cpu", "Insufficient memory"]})[:69]
    '0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. p'
    """
    if not why:
        return "no nodes available to schedule pods"
    counts = Counter(reason for reasons in why.values() for reason in reasons)
    said = ", ".join(sorted(f"{n} {reason}" for reason, n in counts.items()))
    # Deleting pods helps against a lack of room, and not against a taint or a wrong label.
    hard = sum(any(r.startswith("node(s)") for r in reasons) for reasons in why.values())
    parts = [(hard, NO_HELP), (len(why) - hard, NO_VICTIMS)]
    more = ", ".join(sorted(f"{n} {text}" for n, text in parts if n))
    none = f"0/{len(why)} nodes are available: "
    return f"{none}{said}. preemption: {none}{more}."


def _bind(world: World, pod: Object, node: str) -> Object:
    def bind(changed: Object) -> None:
        changed["spec"]["nodeName"] = node
        changed["status"].pop("nominatedNodeName", None)
        set_condition(changed["status"], "PodScheduled", "True")

    bound = world.change(PODS, *key_of(pod), bind) or pod
    said = f"Successfully assigned {'/'.join(key_of(pod))} to {node}"
    world.add_event(bound, PODS, "Normal", "Scheduled", said, SOURCE)
    return bound


def _refuse(world: World, pod: Object, text: str, nominated: str | None = None) -> None:
    """Say why a pod is not scheduled; once, while nothing changes."""
    fresh = False

    def mark(changed: Object) -> None:
        nonlocal fresh
        fresh = set_condition(changed["status"], "PodScheduled", "False", "Unschedulable", text)
        if nominated:
            changed["status"]["nominatedNodeName"] = nominated

    world.change(PODS, *key_of(pod), mark)
    if fresh:
        world.add_event(pod, PODS, "Warning", "FailedScheduling", text, SOURCE)


def _preempt(
    world: World, pod: Object, nodes: list[Object], running: dict[str, Taken]
) -> str | None:
    """Delete pods of lower priority if that makes room; return the node that gets it."""
    priority = pod["spec"].get("priority", 0)
    # A nominated pod waits until its victims are gone, and takes no more of them.
    if pod["status"].get("nominatedNodeName") or pod["spec"].get("preemptionPolicy") == "Never":
        return None
    for node in nodes:
        name = node["metadata"]["name"]
        here = running.get(name, Taken()).pods
        lower = [
            p for p in here if p["spec"].get("priority", 0) < priority and not is_terminating(p)
        ]
        # The least important first, and only as many as are needed.
        lower.sort(key=lambda p: p["spec"].get("priority", 0))
        for count in range(1, len(lower) + 1):
            victims = lower[:count]
            if not problems(pod, node, Taken.of(p for p in here if p not in victims)):
                for victim in victims:
                    evict(world, victim, "PreemptionByScheduler", PREEMPTED)
                    said = f"Preempted by pod {pod['metadata']['uid']} on node {name}"
                    world.add_event(victim, PODS, "Normal", "Preempted", said, SOURCE)
                return str(name)
    return None


def evict(world: World, pod: Object, reason: str, text: str) -> None:
    """Delete a pod with its grace, after its status says why: a disruption.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """

    def mark(changed: Object) -> None:
        set_condition(changed["status"], "DisruptionTarget", "True", reason, text)

    marked = world.change(PODS, *key_of(pod), mark)
    if marked is not None and not is_terminating(marked):
        deletion.delete(world, PODS, marked)
