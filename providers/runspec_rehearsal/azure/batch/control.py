"""The paths that are the rehearsal's own: faults, calls, settings, preemption, tasks, tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runspec_rehearsal.azure.batch import scaling
from runspec_rehearsal.azure.batch.faults import BadFault, fault
from runspec_rehearsal.azure.batch.settings import BadSetting, changed
from runspec_rehearsal.azure.batch.tasks import Task

if TYPE_CHECKING:
    from runspec_rehearsal.azure.batch.server import Listener

PATH = "/_rehearsal/"


def answer(server: Listener, method: str, path: str, body: bytes) -> tuple[int, Any]:
    """Give the status and the JSON that a control path is answered with."""
    handler = HANDLERS.get((method, path.removeprefix(PATH)))
    if handler is None:
        return 404, {"message": f"there are {sorted(' '.join(key) for key in HANDLERS)}"}
    try:
        return 200, handler(server, json.loads(body or b"null"))
    except (BadFault, BadSetting, ValueError, TypeError, KeyError) as exc:
        return 400, {"message": f"{type(exc).__name__}: {exc}"}


def put_faults(server: Listener, given: Any) -> Any:
    server.faults.put([fault(members) for members in given])
    return {}


def delete_faults(server: Listener, _given: Any) -> Any:
    server.faults.put([])
    return {}


def calls(server: Listener, _given: Any) -> Any:
    return server.calls.all()


def put_settings(server: Listener, given: Any) -> Any:
    world = server.world
    with world.lock:
        world.settings = changed(world.settings, given)
        world.place()
    return {}


def preempt(server: Listener, given: Any) -> Any:
    """Take away the machine of `nodeId`, or one that `taskId` of `jobId` is on (`index`: which)."""
    world = server.world
    with world.lock:
        nodes = {n.id: n for p in world.pools.values() for n in p.nodes.values()}
        if "nodeId" in given:
            node = nodes[given["nodeId"]]
        else:
            task = world.jobs[given["jobId"].lower()].tasks[given["taskId"].lower()]
            if task.attempt is None:
                raise ValueError(f"{task.id} is on no node")
            node = task.attempt.nodes[given.get("index", 0)]
        if node.dedicated or node.state == "preempted":
            raise ValueError(f"{node.id} is no low-priority node that could be taken away")
        scaling.preempt(world, node)
        return {"nodeId": node.id}


def tasks(server: Listener, _given: Any) -> Any:
    """Tell how things are: no lag."""
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
    """Give a bearer token that is good, as the endpoint of tokens would."""
    return {"access_token": server.doorman.give()}


HANDLERS = {
    ("PUT", "faults"): put_faults,
    ("DELETE", "faults"): delete_faults,
    ("GET", "calls"): calls,
    ("PUT", "settings"): put_settings,
    ("POST", "preempt"): preempt,
    ("GET", "tasks"): tasks,
    ("POST", "token"): token,
}
