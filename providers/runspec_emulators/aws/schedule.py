"""The life of a job: waiting, placed on a machine, run, tried again, ended."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

from runspec_emulators.aws import containers, retries
from runspec_emulators.aws.engine import KILLED, OUT_OF_MEMORY, CannotStart, End
from runspec_emulators.aws.environments import Environment, Queue
from runspec_emulators.aws.jobs import WAITING, Attempt, Job
from runspec_emulators.aws.placing import Stuck, place

if TYPE_CHECKING:
    from runspec_emulators.aws.world import World

# What ECS says of a task: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/
# stopped-task-error-codes.html; user guide of Batch, "Automated job retries", has the second.
EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
TIMED_OUT = "Job attempt duration exceeded timeout"
ALONE = "127.0.0.1"
DEPENDENCY_FAILED = "Dependent Job failed"


def now_ms() -> int:
    return int(time.time() * 1000)


class Scheduler:
    """Moves jobs from state to state. Every method is called with the lock of the world held."""

    def __init__(self, world: World) -> None:
        self.world = world

    # Waiting

    def submitted(self, job: Job) -> None:
        """Have a new job evaluated. "Job states": SUBMITTED, then PENDING or RUNNABLE."""
        for one in job.children if job.is_array else [job]:
            later = partial(self.evaluate, one)
            self.world.timers.after(self.world.settings.submitted_s, later)
        if job.is_array and job.needs:
            job.status = "PENDING"

    def evaluate(self, job: Job) -> None:
        """Let a job wait for what it needs, or go on. User guide, "Job dependencies".

        A cancelled job "is cancelled after all dependency jobs are completed". CancelJob.
        """
        if job.status not in ("SUBMITTED", "PENDING"):
            return
        needed = [found for need, _ in job.needs if (found := self.world.jobs.get(need))]
        if not job.cancelled and any(other.status == "FAILED" for other in needed):
            self.finish(job, "FAILED", DEPENDENCY_FAILED)
        elif not all(other.finished for other in needed):
            self.all_of(job, "PENDING")
        elif job.cancelled:
            self.finish(job, "FAILED", job.status_reason)
        else:
            self.runnable(job)

    def all_of(self, job: Job, status: str) -> None:
        """Give a job, and the nodes of a multi-node job, a status."""
        job.status = status
        for node in job.children if job.is_multinode else ():
            node.status = status

    def runnable(self, job: Job) -> None:
        self.all_of(job, "RUNNABLE")
        job.status_reason = None
        if job.parent is not None and job.parent.is_array and not job.parent.finished:
            # "Array job parents are updated to PENDING when any child job is updated to RUNNABLE"
            job.parent.status = "PENDING"
        self.world.timers.after(self.world.settings.runnable_s, lambda: self.queue_up(job))

    def queue_up(self, job: Job) -> None:
        if job.status == "RUNNABLE" and job.queue in self.world.queues:
            self.world.queues[job.queue].waiting.append(job)
            self.place_all()

    def place_all(self) -> None:
        """Place what can be placed, first come first: a stuck job at the head blocks its queue.

        User guide, "Jobs stuck in a RUNNABLE status", and CreateJobQueue, priority.
        """
        queues = sorted(self.world.queues.values(), key=lambda q: -q.params["priority"])
        for queue in queues:
            self.place_queue(queue)

    def place_queue(self, queue: Queue) -> None:
        while queue.waiting:
            job = queue.waiting[0]
            if job.status == "RUNNABLE":
                if any(a.running for one in job.containers for a in one.attempts[-1:]):
                    return  # nodes of the attempt before are still to end
                placed = place(job, queue, self.world)
                if isinstance(placed, Stuck):
                    job.status_reason = placed.reason
                    self.blocked(queue, job)
                    return
                self.starting(job, placed)
            queue.waiting.popleft()
        queue.blocked = None

    def blocked(self, queue: Queue, job: Job) -> None:
        """Have the job at the head of a queue given up when its time there is over.

        "Batch will perform each action after maxTimeSeconds has passed", for jobs "that remain at
        the head of the job queue", where its reason is the code of their statusReason.
        CreateJobQueue, jobStateTimeLimitActions, and JobStateTimeLimitAction.
        """
        told = job.status_reason or ""
        code = told.partition(" - ")[0]
        if queue.blocked is not None and queue.blocked[:2] == (job.id, code):
            return
        queue.blocked = known = (job.id, code, time.monotonic())
        for action in queue.params.get("jobStateTimeLimitActions", ()):
            if action["reason"] == code:
                after_s = action["maxTimeSeconds"] * self.world.settings.limit_second_s
                self.world.timers.after(after_s, partial(self.give_up, queue, job, known))

    def give_up(self, queue: Queue, job: Job, known: tuple[str, str, float]) -> None:
        """End a job that was stuck for too long. User guide, "Jobs stuck in RUNNABLE due to capacity"."""
        if queue.blocked == known and job.status == "RUNNABLE":
            reason = f"Canceled by JobStateTimeLimit action due to reason: {known[1]}"
            self.finish(job, "FAILED", reason)
            self.place_all()

    # Running

    def starting(self, job: Job, environment: Environment) -> None:
        """Give every container of a job a machine, and start the first of them.

        "The main node is launched first [...]. When the main node reaches the RUNNING status, the
        child nodes are launched and they also move to the STARTING status." "Job lifecycle".
        """
        environment.used[job.id] = job.vcpus()
        for one in job.containers:
            one.environment = environment.name
            one.attempts.append(self.attempt(one, environment.name))
        job.environment = environment.name
        job.status_reason = None
        job.status = "STARTING"
        self.launch(job.main)

    def attempt(self, job: Job, cluster: str) -> Attempt:
        task, instance = uuid.uuid4().hex, uuid.uuid4().hex
        return Attempt(
            number=len(job.attempts) + 1,
            task=task,
            task_arn=self.world.arn(f"task/{cluster}/{task}", "ecs"),
            instance=f"i-{instance[:17]}",
            instance_arn=self.world.arn(f"container-instance/{cluster}/{instance}", "ecs"),
            # A machine of its own, as far as others can tell: nodes have one, and children of
            # an array may. A job alone has nobody to be told apart from.
            awsvpc=job is not unit_of(job),
            address=ALONE if job.parent is None else self.world.addresses.take(),
        )

    def launch(self, job: Job) -> None:
        attempt = job.attempts[-1]
        job.status = "STARTING"
        self.world.tasks[attempt.task] = (job, attempt)
        self.world.timers.after(self.world.settings.starting_s, lambda: self.run(job, attempt))

    def run(self, job: Job, attempt: Attempt) -> None:
        if attempt.stopped_ms is not None:
            return

        def ended(end: End) -> None:
            with self.world.lock:
                self.stopped(job, attempt, end)

        try:
            attempt.running = containers.start(self.world, job, attempt, ended)
        except CannotStart as exc:
            self.stopped(job, attempt, End(None, str(exc), started=False))
            return
        job.starts += 1
        attempt.started_ms = now_ms()
        unit = unit_of(job)
        for one in {job.id: job, unit.id: unit}.values() if job is unit.main else [job]:
            one.status, one.started_ms = "RUNNING", attempt.started_ms
        if job is unit.main:
            for node in unit.containers:
                if node is not job and not node.finished:
                    self.launch(node)
            if job.timeout_s is not None:
                self.world.timers.after(job.timeout_s, lambda: self.timed_out(job, attempt))

    def timed_out(self, job: Job, attempt: Attempt) -> None:
        """End an attempt that took too long.

        "If a job is terminated due to a timeout, it isn't retried"; for multi-node jobs "the
        timeout applies to the whole job". RegisterJobDefinition, timeout, and JobTimeout.
        """
        if attempt.stopped_ms is None:
            self.halt(job, TIMED_OUT, final=True)

    def halt(self, job: Job, verdict: str, final: bool) -> None:
        """End the current attempt of a job that is STARTING or RUNNING, with this statusReason.

        The first reason stands.
        """
        attempt = job.attempts[-1]
        if attempt.verdict is None:
            attempt.verdict, attempt.final = verdict, final
            self.stop(job)

    def stop(self, job: Job) -> None:
        """End the container of a job, or see to it that it is never started."""
        attempt = job.attempts[-1] if job.attempts else None
        if attempt is None or attempt.stopped_ms is not None:
            return
        if attempt.running:
            attempt.running.stop(self.world.settings.terminate_grace_s)
        else:
            self.stopped(job, attempt, End(None, started=False))

    # Ending

    def stopped(self, job: Job, attempt: Attempt, end: End) -> None:
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
        self.world.addresses.give_back(attempt.address)
        succeeded = attempt.exit_code == 0 and attempt.verdict is None
        if job is unit.main:
            self.decide(unit, attempt, succeeded)
        else:  # "If a child node dies, AWS Batch doesn't take any action on the other nodes"
            if unit.status != "RUNNABLE":
                self.finish(job, "SUCCEEDED" if succeeded else "FAILED", attempt.status_reason)
            self.place_all()

    def decide(self, unit: Job, attempt: Attempt, succeeded: bool) -> None:
        """End a job whose main container has ended, or put it back for another attempt.

        "If the main node exits, the job is considered finished, and all of the child nodes are
        stopped." "Jobs that are cancelled or terminated are not retried." User guide.
        """
        if unit.environment in self.world.environments:
            self.world.environments[unit.environment].used.pop(unit.id, None)
        retried = not (succeeded or attempt.final or unit.terminated)
        retried = retried and retries.again(unit.retry, attempt)
        if retried:
            self.runnable(unit)
        for node in unit.containers:
            if node is not unit.main:
                self.stop(node)
        if not retried:
            status = "SUCCEEDED" if succeeded else "FAILED"
            if unit.is_multinode:
                self.finish(unit.main, status, attempt.status_reason)
            self.finish(unit, status, attempt.status_reason)
        self.place_all()

    def finish(self, job: Job, status: str, reason: str | None) -> None:
        """Give a job its last status, and wake those that wait for it."""
        if job.finished:
            return
        job.status, job.status_reason = status, reason
        job.stopped_ms, job.ended = now_ms(), time.monotonic()
        if job.is_multinode:
            for node in job.children:
                if not node.attempts or node.status in WAITING:
                    self.finish(node, status, reason)
        for other in self.world.jobs.needing(job.id):
            if not other.is_array:  # its children need it themselves, each its own part
                self.evaluate(other)
        if job.parent is not None and job.parent.is_array:
            self.settle(job.parent)

    def settle(self, parent: Job) -> None:
        """End an array when all its children have ended: FAILED if any has. "Array jobs"."""
        if all(child.finished for child in parent.children):
            failed = any(child.status == "FAILED" for child in parent.children)
            reason = parent.status_reason if parent.terminated or parent.cancelled else None
            self.finish(parent, "FAILED" if failed else "SUCCEEDED", reason)

    def fail(self, job: Job, reason: str) -> None:
        """End a job that never gets to run."""
        for child in job.children if job.is_array else ():
            self.finish(child, "FAILED", reason)
        self.finish(job, "FAILED", reason)

    # On request

    def terminate(self, job: Job, reason: str) -> None:
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
                self.terminate(child, reason)
        elif job.status in WAITING:
            self.finish(job, "FAILED", reason)
            self.place_all()
        else:
            unit = unit_of(job)
            if job is unit.main:
                unit.terminated = True
            self.halt(job.main, reason, final=True)

    def cancel(self, job: Job, reason: str) -> None:
        """CancelJob: jobs that are STARTING or RUNNING stay as they are."""
        if job.finished or job.status not in WAITING:
            return
        job.cancelled, job.status_reason = True, reason
        if job.is_array:
            for child in job.children:
                self.cancel(child, reason)
        elif job.status == "PENDING":
            self.evaluate(job)
        else:
            self.finish(job, "FAILED", reason)
            self.place_all()

    def out_of_memory(self, job: Job) -> bool:
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
    """Give what is placed, ends and is tried again as one: the multi-node job of a node."""
    return job.parent if job.parent is not None and job.parent.is_multinode else job
