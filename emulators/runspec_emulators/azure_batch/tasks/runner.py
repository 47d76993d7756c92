"""Attempts of tasks: each in a thread of its own, from the first file to the last."""

from __future__ import annotations

import shutil
import threading
import time
from functools import partial
from typing import Any

from runspec_emulators.azure_batch.model import SHARED, WORK, Attempt, Node, Task
from runspec_emulators.azure_batch.nodes import resizing
from runspec_emulators.azure_batch.processes import commands, containers
from runspec_emulators.azure_batch.processes.commands import Command, Ended
from runspec_emulators.azure_batch.resource import now, seconds
from runspec_emulators.azure_batch.tasks import jobs, multi_instance, output_files, scheduling
from runspec_emulators.azure_batch.tasks.exit_conditions import exit_options
from runspec_emulators.azure_batch.world import World

ENDED = commands.failure("TaskEnded", "Task Was Ended by User Request")
REQUEUED = ("preempted", "requeue")
TAKEN = ("terminated", "timeout")
"""Ends after which output files are still uploaded: "after the Task process exits"."""


class Runner:
    """Starts attempts and says what their ends mean."""

    def __init__(self, world: World) -> None:
        self._world = world

    def place(self) -> None:
        """Start each task that can start; the lock is held."""
        scheduling.place(self._world, self.start)

    def start(self, task: Task, nodes: list[Node]) -> None:
        """Start a task on nodes that are free; the lock is held."""
        attempt = Attempt(task, nodes, len(task.attempts) + 1)
        task.attempts.append(attempt)
        for node in nodes:
            node.attempts.append(attempt)
            node.total += 1
            node.settle()
        preparing = "jobPreparationTask" in task.job.body
        task.move("preparing" if preparing else "running")
        self._changed(task)
        self._world.later(partial(self._run, attempt))

    def _run(self, attempt: Attempt) -> None:
        world = self._world
        time.sleep(world.settings.preparing_s)
        # Only a repeated attempt may find files of its own: the first one begins with none.
        if attempt.number > 1:
            self._renew(attempt)
        end = self._prepared(attempt)
        if end is None:
            with world.lock:
                task = attempt.task
                task.move("running")
                key = "lastRetryTime" if task.info["retryCount"] else "startTime"
                task.info |= {"startTime": now(), key: now()}
                self._changed(task)
            timer = self._limit(attempt)
            end = multi_instance.run(world, attempt)
            if timer:
                timer.cancel()
            if attempt.verdict in (None, *TAKEN):
                end = output_files.taken(attempt, end)
        # The service ends all processes of a task, those in the background too, when its command has ended.
        for command in attempt.commands:
            command.kill()
        with world.lock:
            self._ended(attempt, end)

    def _renew(self, attempt: Attempt) -> None:
        """Remove the task's files from its nodes before a repeated attempt, which the service may place on other nodes.

        https://learn.microsoft.com/azure/batch/best-practices#tasks: "Design for retries and re-execution".
        Files of other tasks stay, as on the nodes that these had.
        """
        for node in attempt.nodes:
            shutil.rmtree(attempt.folder(node), ignore_errors=True)
            with self._world.lock:
                if node.attempts != [attempt]:
                    continue
                node.prepared.pop(attempt.task.job.id, None)
            shutil.rmtree(node.folder(SHARED), ignore_errors=True)
            node.folder(SHARED).mkdir()

    def _limit(self, attempt: Attempt) -> threading.Timer | None:
        """ "If the Task does not complete within the time limit, the Batch service terminates it."""
        limit = seconds(attempt.task.body["constraints"]["maxWallClockTime"])
        if limit is None or limit > threading.TIMEOUT_MAX:
            return None
        timer = threading.Timer(limit, attempt.cut, ["timeout"])
        timer.daemon = True
        timer.start()
        return timer

    def _prepared(self, attempt: Attempt) -> Ended | None:
        """Run the job preparation task where it has not run yet; None if all is well.

        "If the Job Preparation Task fails on a Compute Node [...] the Batch service will not attempt
        to run any other Task of the Job on that Compute Node"; the task is placed on another one.
        """
        job = attempt.task.job
        body = job.body.get("jobPreparationTask")
        if body is None:
            return None
        for node in attempt.nodes:
            # Two tasks of a job that come to a node together share one preparation.
            with node.preparing:
                if job.id in node.prepared:
                    continue
                folder = node.folder(WORK) / job.id / "job-1" / body.get("id", "jobpreparation")
                env = {
                    **multi_instance.environment(self._world, attempt, node),
                    **commands.folders(folder),
                }
                env |= {e["name"]: e.get("value", "") for e in body.get("environmentSettings", ())}
                command = Command(folder, env, containers.of(body))
                attempt.commands.append(command)
                if attempt.is_cut():
                    return Ended()
                begun = now()
                end = command.run(
                    self._world.settings, body["commandLine"], body.get("resourceFiles", ())
                )
                # The task was ended meanwhile: nothing is known of whether the node is prepared.
                if attempt.is_cut():
                    return end
                result = {
                    "startTime": begun,
                    "endTime": now(),
                    "state": "completed",
                    "retryCount": 0,
                }
                result["result"] = "failure" if end.failed else "success"
                with self._world.lock:
                    node.prepared[job.id] = {**result, **end.execution_info()}
            if end.failed:
                attempt.cut("unprepared")
                return end
        return None

    def _ended(self, attempt: Attempt, end: Ended) -> None:
        """Record the end of an attempt, and decide what its task does next."""
        task, why = attempt.task, attempt.verdict
        attempt.ended = now()
        for node in attempt.nodes:
            node.attempts.remove(attempt)
            node.settle()
        limit = task.body["constraints"]["maxTaskRetryCount"]
        # A job that is being ended starts nothing again, whatever its retry limit says.
        dying = task.job.state in ("terminating", "completed", "deleting")
        if why in ("deleted", "closed"):
            pass
        elif why in (*REQUEUED, "unprepared") and not dying:
            if why in REQUEUED:
                task.info |= {
                    "requeueCount": task.info["requeueCount"] + 1,
                    "lastRequeueTime": now(),
                }
            task.move("active")
        elif why in ("terminated", "node-terminated", "unprepared", *REQUEUED) or why == "timeout":
            self._complete(task, Ended(end.exit_code, ENDED))
        elif end.exit_code and (limit == -1 or task.info["retryCount"] < limit):
            task.info |= {"retryCount": task.info["retryCount"] + 1, "lastRetryTime": now()}
            task.move("active")
        else:
            self._complete(task, end)
        for node in attempt.nodes:
            if node.leaving:
                resizing.drop(self._world, node)
        self._world.place()

    def _complete(self, task: Task, end: Ended) -> None:
        task.info |= {"endTime": now(), **end.execution_info()}
        task.info["result"] = "failure" if end.failed else "success"
        task.move("completed")
        self._changed(task)
        if task.attempts:
            url = self._world.task_url(task)
            entry: dict[str, Any] = {"taskUrl": url, "jobId": task.job.id, "taskId": task.id}
            entry |= {"taskState": "completed", "executionInfo": dict(task.info)}
            task.attempts[-1].nodes[0].recent.append(entry)
        if end.failed and task.job.body["onTaskFailure"] == "performexitoptionsjobaction":
            self._exit_action(task, end)
        jobs.all_done(self._world, task.job)

    def _exit_action(self, task: Task, end: Ended) -> None:
        """Do with the job what the exit conditions say.

        "jobAction: [...] The default is none for exit code 0 and terminate for all other exit
        conditions." exitCodes come before ranges, and both before default. ExitConditions.
        """
        given = task.body.get("exitConditions", {})
        options = exit_options(given, end)
        action = options.get("jobAction", "terminate")
        if action == "terminate":
            jobs.end(self._world, task.job, "TaskFailed")
        elif action == "disable" and task.job.state == "active":
            task.job.move("disabling")
            jobs.disabled(self._world, task.job)

    def terminate(self, task: Task) -> None:
        """End a task by request; the lock is held."""
        if task.attempt is not None:
            task.attempt.cut("terminated")
        elif task.state == "active":
            self._complete(task, Ended(None, ENDED))

    def delete(self, task: Task) -> None:
        """Take a task away with its files; the lock is held."""
        attempt = task.attempt
        if attempt is not None:
            attempt.cut("deleted")
        task.job.tasks.pop(task.id.lower(), None)
        folders = [a.folder(n) for a in task.attempts for n in a.nodes]
        self._world.later(partial(sweep, attempt, folders))
        jobs.all_done(self._world, task.job)

    def _changed(self, task: Task) -> None:
        if self._world.settings.list_lag_s:
            task.remember(task.shown(self._world.task_url(task)))


def sweep(attempt: Attempt | None, folders: list[Any]) -> None:
    # A process that has not ended yet would write its files anew.
    while attempt is not None and attempt.ended is None:
        time.sleep(0.01)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
