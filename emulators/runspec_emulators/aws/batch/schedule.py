"""The life of a job: waiting, placed on a machine, run, tried again, ended."""

from __future__ import annotations

import time
import uuid
from functools import partial

from runspec_emulators.aws.batch import containers, retries
from runspec_emulators.aws.batch.jobs import WAITING, Attempt, Job
from runspec_emulators.aws.batch.placing import Place, Stuck, board, leave, place
from runspec_emulators.aws.batch.resources import Queue
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.nodes.engine import KILLED, OUT_OF_MEMORY, CannotStart, End

# What ECS says of a task: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/
# stopped-task-error-codes.html; user guide of Batch, "Automated job retries", has the second.
EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
TIMED_OUT = "Job attempt duration exceeded timeout"
ALONE = "127.0.0.1"
DEPENDENCY_FAILED = "Dependent Job failed"


def now_ms() -> int:
    return int(time.time() * 1000)


# Waiting


def submitted(world: World, job: Job) -> None:
    """Have a new job evaluated. "Job states": SUBMITTED, then PENDING or RUNNABLE."""
    for child in job.children if job.is_array else [job]:
        later = partial(evaluate, world, child)
        world.timers.after(world.settings.submitted_s, later)
    if job.is_array and job.needs:
        job.status = "PENDING"


def evaluate(world: World, job: Job) -> None:
    """Let a job wait for what it needs, or go on. User guide, "Job dependencies".

    A cancelled job "is cancelled after all dependency jobs are completed". CancelJob.
    """
    if job.status not in ("SUBMITTED", "PENDING"):
        return
    needed = [each for need, _ in job.needs if (each := world.jobs.get(need))]
    if not job.cancelled and any(other.status == "FAILED" for other in needed):
        finish(world, job, "FAILED", DEPENDENCY_FAILED)
    elif not all(other.finished for other in needed):
        all_of(job, "PENDING")
    elif job.cancelled:
        finish(world, job, "FAILED", job.status_reason)
    else:
        runnable(world, job)


def all_of(job: Job, status: str) -> None:
    """Set the status of a job, and of the nodes of a multi-node job."""
    job.status = status
    for node in job.children if job.is_multinode else ():
        node.status = status


def runnable(world: World, job: Job) -> None:
    all_of(job, "RUNNABLE")
    job.status_reason = None
    if job.parent is not None and job.parent.is_array and not job.parent.finished:
        # "Array job parents are updated to PENDING when any child job is updated to RUNNABLE"
        job.parent.status = "PENDING"
    world.timers.after(world.settings.runnable_s, lambda: queue_up(world, job))


def queue_up(world: World, job: Job) -> None:
    if job.status == "RUNNABLE" and job.queue in world.queues:
        world.queues[job.queue].waiting.append(job)
        place_all(world)


def place_all(world: World) -> None:
    """Place what can be placed, first come first: a stuck job at the head blocks its queue.

    User guide, "Jobs stuck in a RUNNABLE status", and CreateJobQueue, priority.
    """
    queues = sorted(world.queues.values(), key=lambda q: -q.params["priority"])
    for queue in queues:
        place_queue(world, queue)


def place_queue(world: World, queue: Queue) -> None:
    while queue.waiting:
        job = queue.waiting[0]
        if job.status == "RUNNABLE":
            if any(a.running for job in job.containers for a in job.attempts[-1:]):
                return  # nodes of the previous attempt have not ended yet
            placed = place(job, queue, world)
            if isinstance(placed, Stuck):
                job.status_reason = placed.reason
                blocked(world, queue, job)
                return
            starting(world, job, placed)
        queue.waiting.popleft()
    queue.blocked = None


def blocked(world: World, queue: Queue, job: Job) -> None:
    """Have the job at the head of a queue given up when its time there is over.

    "Batch will perform each action after maxTimeSeconds has passed", for jobs "that remain at
    the head of the job queue", where its reason is the code of their statusReason.
    CreateJobQueue, jobStateTimeLimitActions, and JobStateTimeLimitAction.
    """
    reason = job.status_reason or ""
    code = reason.partition(" - ")[0]
    if queue.blocked is not None and queue.blocked[:2] == (job.id, code):
        return
    queue.blocked = known = (job.id, code, time.monotonic())
    for action in queue.params.get("jobStateTimeLimitActions", ()):
        if action["reason"] == code:
            after_s = action["maxTimeSeconds"] * world.settings.limit_second_s
            world.timers.after(after_s, partial(give_up, world, queue, job, known))


def give_up(world: World, queue: Queue, job: Job, known: tuple[str, str, float]) -> None:
    """End a job that was stuck for too long. User guide, "Jobs stuck in RUNNABLE due to capacity"."""
    if queue.blocked == known and job.status == "RUNNABLE":
        reason = f"Canceled by JobStateTimeLimit action due to reason: {known[1]}"
        finish(world, job, "FAILED", reason)
        place_all(world)


# Running


def starting(world: World, job: Job, place: Place) -> None:
    """Assign a machine to every container of a job, and start the first container.

    "The main node is launched first [...]. When the main node reaches the RUNNING status, the
    child nodes are launched and they also move to the STARTING status." "Job lifecycle".
    """
    environment = place.environment
    if not place.instances:
        environment.used[job.id] = job.vcpus()
    job.environment = environment.name
    for n, child in enumerate(job.containers):
        child.environment = environment.name
        child.attempts.append(made := attempt(world, child, environment.name))
        if place.instances:
            board(world, child, made, environment, place.instances[n])
        elif child.parent is not None:
            made.address = world.addresses.take()
    job.status_reason = None
    job.status = "STARTING"
    launch(world, job.main)


def attempt(world: World, job: Job, cluster: str) -> Attempt:
    task, instance = uuid.uuid4().hex, uuid.uuid4().hex
    return Attempt(
        number=len(job.attempts) + 1,
        task=task,
        task_arn=world.arn(f"task/{cluster}/{task}", "ecs"),
        instance=f"i-{instance[:17]}",
        instance_arn=world.arn(f"container-instance/{cluster}/{instance}", "ecs"),
        awsvpc=job is not unit_of(job),
        address=ALONE,
    )


def launch(world: World, job: Job) -> None:
    attempt = job.attempts[-1]
    job.status = "STARTING"
    world.tasks[attempt.token] = (job, attempt)
    world.timers.after(world.settings.starting_s, lambda: run(world, job, attempt))


def run(world: World, job: Job, attempt: Attempt) -> None:
    if attempt.stopped_ms is not None:
        return

    def ended(end: End) -> None:
        with world.lock:
            stopped(world, job, attempt, end)

    try:
        attempt.running = containers.start(world, job, attempt, ended)
    except CannotStart as exc:
        stopped(world, job, attempt, End(None, str(exc), started=False))
        return
    job.starts += 1
    attempt.started_ms = now_ms()
    unit = unit_of(job)
    for each in {job.id: job, unit.id: unit}.values() if job is unit.main else [job]:
        each.status, each.started_ms = "RUNNING", attempt.started_ms
    if job is unit.main:
        for node in unit.containers:
            if node is not job and not node.finished:
                launch(world, node)
        if job.timeout_s is not None:
            world.timers.after(job.timeout_s, lambda: timed_out(world, job, attempt))


def timed_out(world: World, job: Job, attempt: Attempt) -> None:
    """End an attempt that took too long.

    "If a job is terminated due to a timeout, it isn't retried"; for multi-node jobs "the
    timeout applies to the whole job". RegisterJobDefinition, timeout, and JobTimeout.
    """
    if attempt.stopped_ms is None:
        halt(world, job, TIMED_OUT, final=True)


def halt(world: World, job: Job, verdict: str, final: bool) -> None:
    """End the current attempt of a job that is STARTING or RUNNING, with this statusReason.

    The first reason stands.
    """
    attempt = job.attempts[-1]
    if attempt.verdict is None:
        attempt.verdict, attempt.final = verdict, final
        stop(world, job)


def stop(world: World, job: Job) -> None:
    """End the container of a job, or see to it that it is never started."""
    attempt = job.attempts[-1] if job.attempts else None
    if attempt is None or attempt.stopped_ms is not None:
        return
    if attempt.running:
        attempt.running.stop(world.settings.terminate_grace_s)
    else:
        stopped(world, job, attempt, End(None, started=False))


# Ending


def stopped(world: World, job: Job, attempt: Attempt, end: End) -> None:
    """Take note that a container has ended, and decide what follows."""
    if attempt.stopped_ms is not None:
        return
    attempt.running = None
    attempt.stopped_ms = now_ms()
    attempt.exit_code = None if attempt.lost else end.exit_code
    attempt.reason = end.reason
    if attempt.out_of_memory:
        attempt.exit_code, attempt.reason = KILLED, OUT_OF_MEMORY
    attempt.status_reason = attempt.verdict or (EXITED if end.started else NOT_STARTED)
    unit = unit_of(job)
    leave(world, job, attempt)
    succeeded = attempt.exit_code == 0 and attempt.verdict is None
    if job is unit.main:
        decide(world, unit, attempt, succeeded)
    else:  # "If a child node dies, AWS Batch doesn't take any action on the other nodes"
        if unit.status != "RUNNABLE":
            finish(world, job, "SUCCEEDED" if succeeded else "FAILED", attempt.status_reason)
        place_all(world)


def decide(world: World, unit: Job, attempt: Attempt, succeeded: bool) -> None:
    """End a job whose main container has ended, or put it back for another attempt.

    "If the main node exits, the job is considered finished, and all of the child nodes are
    stopped." "Jobs that are cancelled or terminated are not retried." User guide.
    """
    if unit.environment in world.environments:
        world.environments[unit.environment].used.pop(unit.id, None)
    retried = not (succeeded or attempt.final or unit.terminated)
    retried = retried and retries.again(unit.retry, attempt)
    if retried:
        runnable(world, unit)
    for node in unit.containers:
        if node is not unit.main:
            stop(world, node)
    if not retried:
        status = "SUCCEEDED" if succeeded else "FAILED"
        if unit.is_multinode:
            finish(world, unit.main, status, attempt.status_reason)
        finish(world, unit, status, attempt.status_reason)
    place_all(world)


def finish(world: World, job: Job, status: str, reason: str | None) -> None:
    """Set the final status of a job, and wake the jobs that depend on it."""
    if job.finished:
        return
    job.status, job.status_reason = status, reason
    job.stopped_ms, job.ended = now_ms(), time.monotonic()
    if job.is_multinode:
        for node in job.children:
            if not node.attempts or node.status in WAITING:
                finish(world, node, status, reason)
    for other in world.jobs.needing(job.id):
        if not other.is_array:  # each child of an array depends on its own part of the job
            evaluate(world, other)
    if job.parent is not None and job.parent.is_array:
        settle(world, job.parent)


def settle(world: World, parent: Job) -> None:
    """End an array when all its children have ended: FAILED if any has. "Array jobs"."""
    if all(child.finished for child in parent.children):
        failed = any(child.status == "FAILED" for child in parent.children)
        reason = parent.status_reason if parent.terminated or parent.cancelled else None
        finish(world, parent, "FAILED" if failed else "SUCCEEDED", reason)


def fail(world: World, job: Job, reason: str) -> None:
    """End a job that never gets to run."""
    for child in job.children if job.is_array else ():
        finish(world, child, "FAILED", reason)
    finish(world, job, "FAILED", reason)


# On request


def terminate(world: World, job: Job, reason: str) -> None:
    """TerminateJob: STARTING and RUNNING jobs are ended, the others cancelled.

    "If you cancel or terminate a parent array job, all of the child jobs are cancelled or
    terminated with it." User guide, "Array jobs".
    """
    if job.finished:
        return
    job.terminated = True
    job.status_reason = reason if job.is_array else job.status_reason
    if job.is_array:
        for child in job.children:
            terminate(world, child, reason)
    elif job.status in WAITING:
        finish(world, job, "FAILED", reason)
        place_all(world)
    else:
        unit = unit_of(job)
        if job is unit.main:
            unit.terminated = True
        halt(world, job.main, reason, final=True)


def cancel(world: World, job: Job, reason: str) -> None:
    """CancelJob: jobs that are STARTING or RUNNING stay as they are."""
    if job.finished or job.status not in WAITING:
        return
    job.cancelled, job.status_reason = True, reason
    if job.is_array:
        for child in job.children:
            cancel(world, child, reason)
    elif job.status == "PENDING":
        evaluate(world, job)
    else:
        finish(world, job, "FAILED", reason)
        place_all(world)


def out_of_memory(job: Job) -> bool:
    """Kill a job's container as the kernel does one that needs more than its memory.

    ECS then gives the exit code 137 and `OutOfMemoryError` as the reason.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/out-of-memory.html
    """
    attempt = job.main.attempts[-1] if job.main.attempts else None
    if job.is_array or attempt is None or not attempt.running:
        return False
    attempt.out_of_memory = True
    attempt.running.kill()
    return True


def unit_of(job: Job) -> Job:
    """Return what is placed, ends and is tried again as one: the multi-node job of a node."""
    return job.parent if job.parent is not None and job.parent.is_multinode else job
