"""Nodes: they are there from the beginning, get lost, come back, and shut down.

https://kubernetes.io/docs/concepts/architecture/nodes/,
https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Protocol

from runspec_emulators.kubernetes.api import deletion
from runspec_emulators.kubernetes.api.defaults import TOLERATED_S
from runspec_emulators.kubernetes.controllers import scheduler, taints
from runspec_emulators.kubernetes.resources import (
    ACCOUNTS,
    CLAIMS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITIES,
)
from runspec_emulators.kubernetes.settings import NODE
from runspec_emulators.kubernetes.world import (
    Object,
    World,
    has_ended,
    is_terminating,
    key_of,
    now,
    set_condition,
)

SOURCE = "node-controller"
UNREACHABLE = "node.kubernetes.io/unreachable"
TAINTS = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "containerd://2.2.0",
    "kernelVersion": "6.12.0",
    "kubeProxyVersion": "",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Debian GNU/Linux 13 (trixie)",
    "systemUUID": "",
}
BY_TAINT = "Taint manager: deleting due to NoExecute taint"
BY_GC = "PodGC: node no longer exists"


class Kubelets(Protocol):
    """What runs the pods."""

    def lose(self, node: str) -> None:
        """Kill all on a node, of which nothing is reported any more."""

    def find_again(self, node: str) -> None:
        """Have a node report again."""

    def shut_down(self, pod: Object, grace_s: float) -> None:
        """End a pod because its node ends."""


def begin(world: World) -> None:
    """Make what a cluster has from the beginning: namespaces, nodes, priority classes, claims."""
    for name in dict.fromkeys(("default", "kube-system", *world.settings.namespaces)):
        labels = {"kubernetes.io/metadata.name": name}
        spec, status = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
        world.put(NAMESPACES, _made(world, "Namespace", name, labels, spec=spec, status=status))
        account = _made(world, "ServiceAccount", "default", {})
        account["metadata"]["namespace"] = name
        world.put(ACCOUNTS, account)
    for name, value in world.settings.priorities.items():
        made = _made(world, "PriorityClass", name, {}, "scheduling.k8s.io/v1", value=value)
        world.put(PRIORITIES, made)
    for name, given in world.settings.nodes.items():
        add(world, name, given)
    for place in world.settings.claims:
        namespace, _, name = place.partition("/")
        wanted: Object = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": name,
        }
        status = {"phase": "Bound"}
        claim = _made(world, "PersistentVolumeClaim", name, {}, spec=wanted, status=status)
        claim["metadata"]["namespace"] = namespace
        world.put(CLAIMS, claim)


def add(world: World, name: str, given: Any) -> Object:
    """Add a node with `capacity`, `labels` and `taints`."""
    capacity = {**NODE, **given.get("capacity", {})}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    spec = {"taints": list(given["taints"])} if given.get("taints") else {}
    status: Object = {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {**INFO, "kubeletVersion": world.settings.version},
    }
    _set_ready(status, "True", "KubeletReady", "kubelet is posting ready status")
    labels |= given.get("labels", {})
    return world.put(NODES, _made(world, "Node", name, labels, spec=spec, status=status))


def _made(
    world: World, kind: str, name: str, labels: Object, version: str = "v1", **more: Any
) -> Object:
    meta = {"name": name, "uid": world.new_uid(), "creationTimestamp": now()}
    return {"apiVersion": version, "kind": kind, "metadata": {**meta, "labels": labels}, **more}


def _set_ready(status: Object, value: str, reason: str, message: str) -> None:
    set_condition(status, "Ready", value, reason, message)
    for entry in status["conditions"]:  # of a node, it is called otherwise
        entry["lastHeartbeatTime"] = entry.pop("lastProbeTime", now())


class Controller:
    """Loses nodes and finds them again, and deletes the pods of lost ones. The lock of the world is held."""

    def __init__(self, world: World, kubelets: Kubelets) -> None:
        self._world, self._kubelets = world, kubelets
        self._lost: dict[str, float] = {}
        """When each node was lost, by time.monotonic()."""

    def lose(self, name: str) -> None:
        """Have a node report no more; what ran on it is gone, and nobody knows."""
        self._kubelets.lose(name)
        self._lost[name] = time.monotonic()

        def mark(node: Object) -> None:
            _set_ready(
                node["status"],
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            )
            node["spec"]["taints"] = [
                *(node["spec"].get("taints") or ()),
                *(dict(t) for t in TAINTS),
            ]

        self._change(name, mark, "NodeNotReady")
        for pod in self._pods(name):
            self._world.change(PODS, *key_of(pod), _not_ready)

    def find_again(self, name: str) -> None:
        """Have a node that was lost report again: its pods are not there, and it says so."""
        self._lost.pop(name, None)

        def mark(node: Object) -> None:
            _set_ready(node["status"], "True", "KubeletReady", "kubelet is posting ready status")
            kept = [t for t in node["spec"].get("taints") or () if t["key"] != UNREACHABLE]
            node["spec"]["taints"] = kept
            if not kept:
                del node["spec"]["taints"]

        self._change(name, mark, "NodeReady")
        self._kubelets.find_again(name)

    def remove(self, name: str) -> None:
        """Delete a node, as the controller of a cloud does when its machine is gone."""
        node = self._world.get(NODES, "", name)
        if node is not None:
            self._kubelets.lose(name)
            self._lost.pop(name, None)
            deletion.delete(self._world, NODES, node)

    def shut_down(self, name: str, gone_s: float, comes_back_s: float | None = None) -> None:
        """End the pods of a node, which goes *gone_s* later; another comes in its place after *comes_back_s*."""

        def mark(node: Object) -> None:
            _set_ready(node["status"], "False", "KubeletNotReady", "node is shutting down")
            node["spec"]["unschedulable"] = True

        self._change(name, mark, "NodeNotReady")
        for pod in self._pods(name):
            if not has_ended(pod):
                self._kubelets.shut_down(pod, self._world.settings.shutdown_s)
        self._leave(name, gone_s, comes_back_s)

    def _leave(self, name: str, gone_s: float, comes_back_s: float | None) -> None:
        if any(not has_ended(p) for p in self._pods(name)):
            self._world.timers.after(0.02, partial(self._leave, name, gone_s, comes_back_s))
        else:
            self._world.timers.after(gone_s, partial(self._go, name, comes_back_s))

    def _go(self, name: str, comes_back_s: float | None) -> None:
        self.remove(name)
        if comes_back_s is not None:
            self._world.timers.after(comes_back_s, partial(self._come, name))

    def _come(self, name: str) -> None:
        self._kubelets.find_again(name)
        add(self._world, name, self._world.settings.nodes.get(name, {}))

    def _pods(self, name: str) -> list[Object]:
        return [p for p in self._world.all(PODS) if p["spec"].get("nodeName") == name]

    def _change(self, name: str, how: Any, reason: str) -> None:
        node = self._world.change(NODES, "", name, how)
        if node is None:
            raise KeyError(f"there is no node {name!r}")
        said = f"Node {name} status is now: {reason}"
        self._world.add_event(node, NODES, "Normal", reason, said, SOURCE)

    def sync(self) -> None:
        """Delete pods of lost nodes when their tolerations end, and say of pods without a node that they failed.

        "PodGC: node no longer exists", and pods that are deleted before they were scheduled:
        https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection
        """
        nodes = {n["metadata"]["name"] for n in self._world.all(NODES)}
        for pod in list(self._world.all(PODS)):
            name = pod["spec"].get("nodeName")
            # No kubelet knows such a pod, so nobody else would report its end.
            if not name and is_terminating(pod) and not has_ended(pod):
                self._world.change(PODS, *key_of(pod), _fail)
            elif name and name not in nodes:
                self._collect(pod)
            elif name in self._lost and not has_ended(pod) and not is_terminating(pod):
                self._taint(pod, self._lost[name])

    def _collect(self, pod: Object) -> None:
        if not has_ended(pod):

            def mark(changed: Object) -> None:
                _fail(changed)
                target = (
                    c for c in changed["status"]["conditions"] if c["type"] == "DisruptionTarget"
                )
                if not any(target):
                    set_condition(
                        changed["status"], "DisruptionTarget", "True", "DeletionByPodGC", BY_GC
                    )

            pod = self._world.change(PODS, *key_of(pod), mark) or pod
        if not is_terminating(pod) or pod["metadata"].get("deletionGracePeriodSeconds"):
            deletion.delete(self._world, PODS, pod, {"gracePeriodSeconds": 0})

    def _taint(self, pod: Object, since: float) -> None:
        """Delete a pod when it has tolerated a lost node for long enough.

        https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions
        """
        toleration = taints.toleration_of(pod, TAINTS[1])
        # Pods tolerate a lost node for 300 s unless they say otherwise, in case it comes back:
        # DefaultTolerationSeconds, which `defaults` sets.
        seconds = 0 if toleration is None else toleration.get("tolerationSeconds")
        if seconds is None:  # it tolerates the taint for ever
            return
        wait_s = self._world.settings.unreachable_s * seconds / TOLERATED_S
        left = since + wait_s - time.monotonic()
        if left > 0:
            self._world.wake_in(left)
        else:
            scheduler.evict(self._world, pod, "DeletionByTaintManager", BY_TAINT)


def _fail(pod: Object) -> None:
    pod["status"]["phase"] = "Failed"
    pod["status"].setdefault("conditions", [])


def _not_ready(pod: Object) -> None:
    if not has_ended(pod):
        set_condition(pod["status"], "Ready", "False", "NodeNotReady", "")
