"""The paths by which tests control the emulator: its settings and its jobs."""

from __future__ import annotations

from typing import Any

from runspec_emulators.aws.batch import reclaims, schedule
from runspec_emulators.aws.batch.jobs import Job
from runspec_emulators.aws.batch.world import World
from runspec_emulators.frame.calls import Listener


def put_settings(server: Listener[World], given: Any) -> Any:
    world = server.world
    with world.lock:
        world.settings = world.settings.changed(given)
        schedule.place_all(world)
    return {}


def reclaim(server: Listener[World], given: Any) -> Any:
    """Reclaim the machine of `jobId`; with `notice_s`, that many seconds after a notice in its metadata."""
    world = server.world
    with world.lock:
        job = world.jobs.get(given["jobId"])
        notice_s = given.get("notice_s")
        if job is None or not reclaims.reclaim(world, job, notice_s):
            raise ValueError(f"{given['jobId']} is on no machine that could be reclaimed")
    return {}


def out_of_memory(server: Listener[World], given: Any) -> Any:
    world = server.world
    with world.lock:
        job = world.jobs.get(given["jobId"])
        if job is None or not schedule.out_of_memory(job):
            raise ValueError(f"{given['jobId']} has no running container")
    return {}


def jobs(server: Listener[World], _given: Any) -> Any:
    """Return the state of each job, without lag and with nothing forgotten."""
    with server.world.lock:
        return [truth(job) for job in server.world.jobs]


def truth(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "status": job.status,
        "statusReason": job.status_reason,
        "attempts": [
            {"number": a.number, "exitCode": a.exit_code, "statusReason": a.status_reason}
            for a in job.main.attempts
        ],
        "starts": job.starts,
        "running": any(a.running for a in job.attempts),
    }


HANDLERS = {
    ("PUT", "settings"): put_settings,
    ("POST", "reclaim"): reclaim,
    ("POST", "out-of-memory"): out_of_memory,
    ("GET", "jobs"): jobs,
}
