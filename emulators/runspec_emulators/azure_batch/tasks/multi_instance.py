"""The processes of one attempt: the command of a task, or those of a gang of nodes that start together."""

from __future__ import annotations

import threading
from typing import Any

from runspec_emulators.azure_batch.model import WORK, Attempt, Node
from runspec_emulators.azure_batch.nodes import lifecycle
from runspec_emulators.azure_batch.processes import commands, containers
from runspec_emulators.azure_batch.processes.commands import Command, Ended
from runspec_emulators.azure_batch.world import World

PORT = 6000  # the port in AZ_BATCH_MASTER_NODE, as in the example of the documentation


def environment(world: World, attempt: Attempt, node: Node) -> dict[str, str]:
    """Return the variables of a task on one of its nodes, the strongest last.

    commonEnvironmentSettings: "Individual Tasks can override an environment setting specified here
    by specifying the same setting name with a different value." What the service sets itself wins.
    https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables
    """
    task, job = attempt.task, attempt.task.job
    folder = attempt.folder(node)
    env = {e["name"]: e.get("value", "") for e in job.body.get("commonEnvironmentSettings", ())}
    env |= {e["name"]: e.get("value", "") for e in task.body.get("environmentSettings", ())}
    env |= lifecycle.variables(world, node)
    env |= {"AZ_BATCH_JOB_ID": job.id, "AZ_BATCH_TASK_ID": task.id, **commands.folders(folder)}
    preparation = job.body.get("jobPreparationTask")
    if preparation:
        at = node.folder(WORK) / job.id / "job-1" / preparation.get("id", "jobpreparation")
        env |= {"AZ_BATCH_JOB_PREP_DIR": str(at), "AZ_BATCH_JOB_PREP_WORKING_DIR": str(at / "wd")}
    if "multiInstanceSettings" in task.body:
        env |= of_gang(world, attempt, node, str(folder))
    return env


def of_gang(world: World, attempt: Attempt, node: Node, folder: str) -> dict[str, str]:
    """https://learn.microsoft.com/en-us/azure/batch/batch-mpi#environment-variables

    AZ_BATCH_TASK_SHARED_DIR is the task's folder; "identical for the primary task and every
    subtask" it cannot be here, where all nodes share the file system of one machine.
    """
    addresses = [n.address for n in attempt.nodes]
    cores = world.settings.cores
    return {
        "AZ_BATCH_HOST_LIST": ",".join(addresses),
        "AZ_BATCH_NODE_LIST": ";".join(addresses),
        "AZ_BATCH_MASTER_NODE": f"{addresses[0]}:{PORT}",
        "AZ_BATCH_IS_CURRENT_NODE_MASTER": "true" if node is attempt.nodes[0] else "false",
        "AZ_BATCH_TASK_SHARED_DIR": folder,
        "CCP_NODES": " ".join([str(len(addresses)), *(f"{a} {cores}" for a in addresses)]),
    }


def run(world: World, attempt: Attempt) -> Ended:
    """Run an attempt to its end, which is that of the primary."""
    body = attempt.task.body
    made = [
        Command(attempt.folder(n), environment(world, attempt, n), containers.of(body))
        for n in attempt.nodes
    ]
    attempt.commands += made
    for command in made:
        if attempt.verdict:  # the attempt was ended before its nodes were ready
            command.kill()
    settings = body.get("multiInstanceSettings")
    if settings is not None:
        failed = coordinate(world, attempt, made, settings)
        if failed is not None:
            return failed
    end = made[0].fetch(body.get("resourceFiles", ()), made[0].folder / "wd")
    if end is not None:
        return end
    made[0].append = settings is not None
    return made[0].execute(world.settings, body["commandLine"])


def coordinate(
    world: World, attempt: Attempt, made: list[Command], settings: dict[str, Any]
) -> Ended | None:
    """Have all nodes fetch the common files and run the coordination command; None if all is well.

    "Batch does not execute the application command until the coordination command has returned
    successfully for all subtasks", and what it left in the background goes on. "If any of the
    subtasks fail [...] the entire multi-instance task fails."
    """
    ends: list[Ended | None] = [None] * len(made)

    def one(index: int) -> None:
        command = made[index]
        end = command.fetch(settings.get("commonResourceFiles", ()), command.folder)
        line = settings.get("coordinationCommandLine")
        if end is None and line:
            end = command.execute(world.settings, line, leave=True)
        ends[index] = end or Ended(0)
        attempt.exit_codes[index] = ends[index].exit_code  # type: ignore[union-attr]

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(made))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next((e for e in ends if e is not None and e.failed), None)
