"""Machines that are taken away from jobs: spot instances of EC2, and tasks of Fargate Spot."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from runspec_emulators.aws.batch import schedule
from runspec_emulators.aws.batch.jobs import Attempt, Job
from runspec_emulators.aws.batch.resources import FARGATE
from runspec_emulators.aws.batch.world import World


def reclaim(world: World, job: Job, notice_s: float | None = None) -> bool:
    """Take away the machine of a job's attempt, as EC2 takes spot instances back.

    The statusReason is that of the user guide's example for `onStatusReason`: `Host EC2*`.
    Containers get SIGTERM first: the agent stops its tasks at the interruption notice. With
    *notice_s* it does not ("Spot Instance draining is turned off by default"): the metadata has
    the notice, and so many seconds later all that still runs there is gone.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/spot-instance-draining-linux-container.html
    """
    main = job.main
    if job.is_array or main.status not in ("STARTING", "RUNNING"):
        return False
    attempt = main.attempts[-1]
    environment = kind(world, main)
    if environment in FARGATE:
        return environment == "FARGATE_SPOT" and interrupt(world, main)
    if notice_s is None:
        lose(main, attempt, partial(schedule.stop, world))
        return True
    attempt.machine.ends = time.time() + notice_s
    world.timers.after(notice_s, partial(lose, main, attempt, partial(kill, world)))
    return True


def interrupt(world: World, job: Job) -> bool:
    """Take a task of Fargate Spot back: SIGTERM is the notice, and SIGKILL follows.

    "A SIGTERM signal [...] to the running task", and after stopTimeout, of which Batch has no
    setting (github.com/aws/containers-roadmap/issues/2059), "the container is forcefully
    stopped". The exit code stays known, and these are the words: github.com/reproio/wrapbox/pull/53,
    of Batch: github.com/nextflow-io/nextflow/issues/5786; the code is SpotInterruption.
    https://repost.aws/knowledge-center/fargate-spot-termination-notice
    """
    schedule.halt(world, job, "Your Spot Task was interrupted.", final=False)
    return True


def kind(world: World, job: Job) -> str:
    environment = world.environments.get(job.environment or "")
    return environment.kind if environment else ""


def lose(job: Job, attempt: Attempt, how: Callable[[Job], None]) -> None:
    """End an attempt whose machine is reclaimed. The first reason for an end counts."""
    if attempt.stopped_ms is None:
        if attempt.verdict is None:
            attempt.lost = True
            attempt.verdict = f"Host EC2 (instance {attempt.instance}) terminated."
        how(job)


def kill(world: World, job: Job) -> None:
    """End the container of a job without asking it."""
    running = job.attempts[-1].running
    if running:
        running.kill()
    else:
        schedule.stop(world, job)
