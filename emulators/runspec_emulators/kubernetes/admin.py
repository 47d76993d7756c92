"""The paths that are the rehearsal's own here: settings, and what befalls pods and nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

from runspec_emulators.frame.calls import Listener
from runspec_emulators.kubernetes.cluster import Cluster
from runspec_emulators.kubernetes.controllers import scheduler
from runspec_emulators.kubernetes.resources import PODS
from runspec_emulators.kubernetes.world import Object

Server = Listener[Cluster]


def put_settings(server: Server, given: Any) -> Any:
    cluster = server.world
    with cluster.lock:
        cluster.settings = cluster.settings.changed(given)
        cluster.wake_in(0)
        cluster.changed.notify_all()
    return {}


def _pod(server: Server, given: Any) -> Object:
    """Return the pod that `namespace` and `pod` name."""
    namespace = given.get("namespace", "default")
    pod = server.world.get(PODS, namespace, given["pod"])
    if pod is None:
        raise ValueError(f"there is no pod {given['pod']!r} in {namespace}")
    return pod


def _node(server: Server, given: Any) -> str:
    """Return the node that `node` names, or that a pod is on."""
    if "node" in given:
        return str(given["node"])
    node = _pod(server, given)["spec"].get("nodeName")
    if node is None:
        raise ValueError(f"{given['pod']} is on no node")
    return str(node)


def reclaim(server: Server, given: Any) -> Any:
    """Shut a node down, as a cloud does that takes a spot machine away: `node`, or the node of a `pod`.

    The node is deleted, and with it what is known of its pods, `gone_s` (0.5) after these have ended. Another comes
    in its place after `comes_back_s`, if that is given. `notice_s` is a time before.
    """
    cluster = server.world
    with cluster.lock:
        node = _node(server, given)
        times = (given.get("gone_s", 0.5), given.get("comes_back_s"))
        end = partial(cluster.nodes.shut_down, node, *times)
        if given.get("notice_s"):
            cluster.timers.after(given["notice_s"], end)
        else:
            end()
    return {"node": node}


def lose(server: Server, given: Any) -> Any:
    """Have a node report no more; after `gone_s`, if that is given, a cloud deletes it."""
    cluster = server.world
    with cluster.lock:
        node = _node(server, given)
        cluster.nodes.lose(node)
        if given.get("gone_s") is not None:
            cluster.timers.after(given["gone_s"], partial(cluster.nodes.remove, node))
    return {"node": node}


def find_again(server: Server, given: Any) -> Any:
    """Have a node that was lost report again."""
    with server.world.lock:
        server.world.nodes.find_again(given["node"])
    return {}


def evict(server: Server, given: Any) -> Any:
    """Evict a `pod` because its node lacks memory or, with `disk`, because it takes more disk than its limit."""
    with server.world.lock:
        server.world.kubelet.evict(_pod(server, given), over_limit=bool(given.get("disk")))
    return {}


def preempt(server: Server, given: Any) -> Any:
    """Delete a `pod` as the scheduler does for one of a higher priority."""
    with server.world.lock:
        reason, message = "PreemptionByScheduler", scheduler.PREEMPTED
        scheduler.evict(server.world, _pod(server, given), reason, message)
    return {}


def oom(server: Server, given: Any) -> Any:
    """Have the containers of a `pod` end as those that use more memory than they may."""
    with server.world.lock:
        run = server.world.kubelet.run_of(_pod(server, given))
    run.kill_for_memory()
    return {}


def forget(server: Server, _given: Any) -> Any:
    """Forget all changes: watches and pages that begin before are Expired."""
    with server.world.lock:
        server.world.forget()
    return {}


def pods(server: Server, _given: Any) -> Any:
    """Return of each pod where it is: its folder, its address and the processes of its containers."""
    with server.world.lock:
        return [
            {
                "name": run.pod["metadata"]["name"],
                "namespace": run.pod["metadata"]["namespace"],
                "uid": run.uid,
                "node": run.node,
                "address": run.address,
                "folder": str(run.folder),
                "running": not run.done.is_set(),
                "pids": [c.process.pid for c in run.containers.values() if c.process is not None],
            }
            for run in server.world.kubelet.runs.values()
        ]


HANDLERS = {
    ("PUT", "settings"): put_settings,
    ("POST", "reclaim"): reclaim,
    ("POST", "lose"): lose,
    ("POST", "find-again"): find_again,
    ("POST", "evict"): evict,
    ("POST", "preempt"): preempt,
    ("POST", "oom"): oom,
    ("POST", "forget"): forget,
    ("GET", "pods"): pods,
}
