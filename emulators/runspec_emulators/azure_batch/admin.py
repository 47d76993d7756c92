"""The paths that are the rehearsal's own here: settings, preemption, tasks, tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

from runspec_emulators.azure_batch.authentication import Listener
from runspec_emulators.azure_batch.model import Node, Task
from runspec_emulators.azure_batch.nodes import metadata, resizing


def put_settings(server: Listener, given: Any) -> Any:
    world = server.world
    with world.lock:
        world.settings = world.settings.changed(given)
        world.place()
    return {}


def preempt(server: Listener, given: Any) -> Any:
    """Take away the machine of `nodeId`, or one that `taskId` of `jobId` is on (`index`: which).

    With `notice_s`, its metadata announces that so many seconds before (`kind`: Preempt or Terminate).
    """
    world = server.world
    with world.lock:
        node = _named(server, given)
        if node.dedicated or node.state == "preempted":
            raise ValueError(f"{node.id} is no low-priority node that could be taken away")
        if given.get("notice_s"):
            metadata.announce(node, given.get("kind", "Preempt"), given["notice_s"])
            world.timers.after(given["notice_s"], partial(_taken, server, node))
        else:
            resizing.preempt(world, node)
        return {"nodeId": node.id}


def _taken(server: Listener, node: Node) -> None:
    if node.event and node.state != "preempted":
        resizing.preempt(server.world, node)


def withdraw(server: Listener, given: Any) -> Any:
    """Take back the notice of a machine, which then stays."""
    with server.world.lock:
        metadata.withdraw(_named(server, given))
    return {}


def _named(server: Listener, given: Any) -> Node:
    world = server.world
    nodes: dict[str, Node] = {n.id: n for p in world.pools.values() for n in p.nodes.values()}
    if "nodeId" in given:
        return nodes[given["nodeId"]]
    task = world.jobs[given["jobId"].lower()].tasks[given["taskId"].lower()]
    if task.attempt is None:
        raise ValueError(f"{task.id} is on no node")
    node: Node = task.attempt.nodes[given.get("index", 0)]
    return node


def tasks(server: Listener, _given: Any) -> Any:
    """Return the state of each task, without lag."""
    with server.world.lock:
        return [truth(t) for j in server.world.jobs.values() for t in j.tasks.values()]


def truth(task: Task) -> dict[str, Any]:
    return {
        "jobId": task.job.id,
        "id": task.id,
        "state": task.state,
        "executionInfo": task.info,
        "starts": len(task.attempts),
        "attempts": [
            {
                "nodes": [n.id for n in a.nodes],
                "addresses": [n.address for n in a.nodes],
                "folders": [str(a.folder(n)) for n in a.nodes],
                "verdict": a.verdict,
                "ended": a.ended,
            }
            for a in task.attempts
        ],
        "running": task.attempt is not None,
    }


def token(server: Listener, _given: Any) -> Any:
    """Return a bearer token that is good, as the endpoint of tokens would."""
    return {"access_token": server.authenticator.give()}


HANDLERS = {
    ("PUT", "settings"): put_settings,
    ("POST", "preempt"): preempt,
    ("POST", "withdraw"): withdraw,
    ("GET", "tasks"): tasks,
    ("POST", "token"): token,
}
