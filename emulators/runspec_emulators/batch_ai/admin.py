"""The paths that are the rehearsal's own here: settings, preemption, jobs, nodes."""

from __future__ import annotations

from typing import Any

from runspec_emulators.batch_ai.model import Job
from runspec_emulators.batch_ai.resources import scaling
from runspec_emulators.batch_ai.world import World
from runspec_emulators.frame.calls import Listener


def put_settings(server: Listener[World], given: Any) -> Any:
    with server.world.lock:
        server.world.settings = server.world.settings.changed(given)
    return {}


def preempt(server: Listener[World], given: Any) -> Any:
    """Take away a node without notice: `node`, its id, or the first that runs `job`, a name."""
    if not isinstance(given, dict) or not given.keys() & {"node", "job"}:
        raise ValueError("preempt takes node or job")
    world = server.world
    with world.lock:
        for cluster in world.clusters():
            for node in cluster.nodes:
                job = node.job.name if node.job else None
                if given.get("node") == node.id or (job and given.get("job") == job):
                    scaling.preempt(world, cluster, node)
                    return {"node": node.id, "address": node.address}
    raise ValueError(f"there is no such node: {given}")


def jobs(server: Listener[World], _given: Any) -> Any:
    """Return the state of each job."""
    with server.world.lock:
        return [truth(job) for job in server.world.jobs()]


def truth(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "exitCode": job.exit_code,
        "errors": job.errors,
        "runs": job.runs,
        "running": job.run is not None,
        "nodes": [node.id for node in job.nodes],
    }


def nodes(server: Listener[World], _given: Any) -> Any:
    with server.world.lock:
        return [
            {
                "id": node.id,
                "cluster": cluster.name,
                "state": node.state,
                "folder": str(node.folder),
            }
            for cluster in server.world.clusters()
            for node in cluster.nodes
        ]


def token(server: Listener[World], _given: Any) -> Any:
    """Return a bearer token that this emulator accepts."""
    with server.world.lock:
        return {"token": server.world.new_token()[0]}


HANDLERS = {
    ("PUT", "settings"): put_settings,
    ("POST", "preempt"): preempt,
    ("GET", "jobs"): jobs,
    ("GET", "nodes"): nodes,
    ("POST", "token"): token,
}
