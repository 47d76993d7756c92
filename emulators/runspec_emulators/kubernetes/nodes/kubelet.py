"""The kubelets of all nodes: they start what is bound to their nodes, and end what is deleted."""

from __future__ import annotations

import shutil
import threading

from runspec_emulators.kubernetes.api import deletion
from runspec_emulators.kubernetes.nodes import pod_status
from runspec_emulators.kubernetes.nodes.pod_run import PodRun
from runspec_emulators.kubernetes.resources import PODS
from runspec_emulators.kubernetes.world import (
    Object,
    World,
    has_ended,
    is_terminating,
    key_of,
)

SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
PRESSURE = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
OVER_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers {}. "
DISK = "ephemeral-storage"
CLOSE_S = 15.0


class Kubelet:
    """Runs pods. The lock of the world is held by callers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.runs: dict[str, PodRun] = {}
        """The pods by uid, also those that have ended and are not deleted."""
        self._lost: set[str] = set()

    def sync(self) -> None:
        """Start and end what is to start and end."""
        there = set()
        for pod in list(self._world.all(PODS)):
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            there.add(uid)
            if not node or node in self._lost:
                continue
            if is_terminating(pod):
                self._stop(pod, self.runs.get(uid))
            elif uid not in self.runs and not has_ended(pod):
                self._start(pod)
        for uid in [u for u in self.runs if u not in there]:
            self._forget(uid)

    def _start(self, pod: Object) -> None:
        run = PodRun(self._world, pod, self._world.addresses.take())
        self.runs[run.uid] = run
        run.begin()

    def _stop(self, pod: Object, run: PodRun | None) -> None:
        """End a pod that is to be deleted; delete it when it has ended."""
        if run is not None and not run.done.is_set():
            if not run.stopping:
                self._world.add_event(
                    pod, PODS, "Normal", "Killing", "Stopping container", "kubelet"
                )
            run.stop(pod["metadata"].get("deletionGracePeriodSeconds", 0))
            return
        if pod["metadata"].get("deletionGracePeriodSeconds"):

            def mark(changed: Object) -> None:
                changed["metadata"]["deletionGracePeriodSeconds"] = 0
                if run is None:
                    changed["status"]["phase"] = "Failed"

            pod = self._world.change(PODS, *key_of(pod), mark) or pod
        deletion.settle(self._world, PODS, pod)

    def _forget(self, uid: str) -> None:
        """End a pod that is there no more, and take its files away: logs are gone with it."""
        run = self.runs[uid]
        if run.done.is_set():
            del self.runs[uid]
            self._world.addresses.give_back(run.address)
            shutil.rmtree(run.folder, ignore_errors=True)
        else:
            run.stop(0)

    # What befalls pods.

    def run_of(self, pod: Object) -> PodRun:
        """Return what runs a pod; raise KeyError if nothing does."""
        return self.runs[pod["metadata"]["uid"]]

    def lose(self, node: str) -> None:
        """Kill all on a node, of which nothing is reported any more."""
        self._lost.add(node)
        for run in self.runs.values():
            if run.node == node and not run.done.is_set():
                run.silent = True
                # In a thread: the lock is held, and the processes need their time to end.
                threading.Thread(target=run.kill, daemon=True).start()

    def find_again(self, node: str) -> None:
        """Have a node report again: of the pods that ran on it, that their containers are gone."""
        self._lost.discard(node)
        for pod in list(self._world.all(PODS)):
            run = self.runs.get(pod["metadata"]["uid"])
            if pod["spec"].get("nodeName") == node and run is not None and run.silent:
                run.silent = False
                if not has_ended(pod):
                    self._world.change(PODS, *key_of(pod), _located_nowhere)

    def shut_down(self, pod: Object, grace_s: float) -> None:
        """End a pod because its node shuts down.

        https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/
        """
        own = pod["spec"]["terminationGracePeriodSeconds"]
        self._end(pod, ("Terminated", SHUTDOWN), min(own, grace_s), disrupts=True)

    def evict(self, pod: Object, *, over_limit: bool = False) -> None:
        """End a pod because its node lacks memory, or *over_limit* its own disk: that is no disruption.

        https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/,
        https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/eviction/eviction_manager.go
        """
        message = PRESSURE
        if over_limit:
            limits = (c["resources"].get("limits") or {} for c in pod["spec"]["containers"])
            message = OVER_LIMIT.format(next(v[DISK] for v in limits if DISK in v))
        self._world.add_event(pod, PODS, "Warning", "Evicted", message, "kubelet")
        grace_s = self._world.settings.evict_s
        self._end(pod, ("Evicted", message), grace_s, disrupts=not over_limit)

    def _end(self, pod: Object, cause: tuple[str, str], grace_s: float, *, disrupts: bool) -> None:
        run = self.run_of(pod)
        if run.done.is_set() or run.stopping:
            return
        run.cause, run.disruption = cause, cause[1] if disrupts else ""
        run.stop(grace_s)

    def close(self) -> None:
        """End every process of every pod."""
        runs = list(self.runs.values())
        threads = [threading.Thread(target=run.kill, daemon=True) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_S)
        for run in runs:
            run.done.wait(CLOSE_S)


def _located_nowhere(pod: Object) -> None:
    pod["status"]["phase"] = "Failed"
    for entry in pod["status"].get("containerStatuses") or ():
        entry["state"] = pod_status.located_nowhere()
