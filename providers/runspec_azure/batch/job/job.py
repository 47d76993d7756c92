"""The job of a run and its tasks: one for each combination of a sweep, on one node or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_azure.batch import signed
from runspec_azure.batch.infrastructure import pool
from runspec_azure.batch.job import key_vault
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import batch, pairs
from runspec_azure.store import layout
from runspec_jobs.provider import Facts, Scope, Spec, Step, limit_s, nodes_each, tasks_in_all

# https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/create-task-collection
AT_ONCE = 100
RETENTION = "P7D"  # of the files of a task, if its node still exists
CANCELLED = "cancelled by runspec"
INSIDE = "inside.pyz"

# No shell reads a command line: https://learn.microsoft.com/en-us/azure/batch/virtual-file-mount
# The user's program is in the record, so these lines are always the same.
COMMAND = "/bin/sh -c 'exec python3 -IS \"$AZ_BATCH_TASK_WORKING_DIR/inside.pyz\" job 2>&1'"
GANG_COMMAND = "/bin/sh -c 'exec python3 -IS \"$AZ_BATCH_TASK_SHARED_DIR/inside.pyz\" job 2>&1'"
# Every node runs it before the first one runs the command; the agent continues in the background:
# https://learn.microsoft.com/en-us/azure/batch/batch-mpi#coordination-command
# Whether it continues until the first node has ended is an assumption: see docs/unverified.md, azure-30.
COORDINATION = (
    "/bin/sh -c 'exec python3 -IS \"$AZ_BATCH_TASK_SHARED_DIR/inside.pyz\" job --node 2>&1'"
)
# Variables of the contract, and the service's variables for them: see docs/inside.md.
# https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables
WORDS = (
    "RUNSPEC_JOB=AZ_BATCH_JOB_ID RUNSPEC_LOG=AZ_BATCH_TASK_DIR "
    "RUNSPEC_SHARED=AZ_BATCH_NODE_MOUNTS_DIR"
)
GANG_WORDS = (
    " RUNSPEC_NODE_NAMES=AZ_BATCH_HOST_LIST RUNSPEC_MAIN=AZ_BATCH_MASTER_NODE "
    "RUNSPEC_IS_MAIN=AZ_BATCH_IS_CURRENT_NODE_MASTER RUNSPEC_NODE_ID=AZ_BATCH_NODE_ID"
)
BELOW = " RUNSPEC_BELOW=AZ_BATCH_TASK_WORKING_DIR"  # the root folder of a machine does not belong to the job
# That of a container does, but it is on the small system disk of the machine; the task's folder is not.
# https://learn.microsoft.com/en-us/azure/batch/files-and-directories
DISK = " RUNSPEC_DISK=AZ_BATCH_TASK_WORKING_DIR"
# Tasks run without administrator permissions unless they request them, and in a container as the same
# user: https://learn.microsoft.com/en-us/azure/batch/batch-docker-container-workloads (on Linux tasks)
ROOT = {"autoUser": {"scope": "pool", "elevationLevel": "admin"}}
# A command line becomes the arguments of an image's ENTRYPOINT, which may ignore them: this one executes them.
# https://github.com/MicrosoftDocs/azure-docs/issues/94943
ENTRYPOINT = ("--entrypoint", "/usr/bin/env")
# https://learn.microsoft.com/en-us/azure/batch/batch-quota-limit#other-limits
LONGEST_S = 180 * 86_400
# The exit code of the agent if the store refuses access, which all tasks have with one signature or identity.
# Jobs with `noaction` refuse exit conditions; without a default, the condition would end the job at any
# failure: https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/create-task#exitoptions
STOPS = 77
ON_FAILURE = {"onTaskFailure": "performexitoptionsjobaction"}
CONDITIONS = {
    "exitCodes": [{"code": STOPS, "exitOptions": {"jobAction": "terminate"}}],
    "default": {"jobAction": "none"},
}
CONTAINER_SAS = {"$signed": "racwdl"}  # the signature for RUNSPEC_STORE
CONTAINER_URL = {"$signed": "url racwdl"}  # the URL of the container with its signature


def task_id(task: int) -> str:
    """Return the id of a task of a sweep; ids sort like numbers.

    >>> task_id(7)
    'task-00007'
    """
    return f"task-{task:05}"


def shape(spec: Spec) -> str:
    return "nodes" if nodes_each(spec) > 1 else "single"


def steps(spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    """Yield the steps that make the job and its tasks, and set the job to end with the last of them.

    An empty job would end at once if this were set before the tasks exist.
    https://learn.microsoft.com/en-us/rest/api/batchservice/jobs/create-job#onalltaskscomplete
    """
    yield _job(spec, run, facts)
    count = tasks_in_all(spec)
    for number, start in enumerate(range(0, count, AT_ONCE)):
        end = min(count, start + AT_ONCE)
        which = f"task {start}" if end - start == 1 else f"tasks {start} to {end - 1}"
        body = {"value": [task(spec, run, facts, i) for i in range(start, end)]}
        do = batch("Task_AddCollection", {"jobId": run}, body)
        yield Step(f"tasks-{number}", f"submit {which}", Scope.RUN, do)
    do = batch("Job_Patch", {"jobId": run}, {"onAllTasksComplete": "terminatejob"})
    yield Step("last", "set the job to end with its last task", Scope.RUN, do)


def _job(spec: Spec, run: str, facts: Facts) -> Step:
    options: BatchOptions = facts.options
    body: dict[str, Any] = {
        "id": run,
        "displayName": spec.name,
        "poolInfo": {"poolId": pool.name(spec, facts)},
        "onAllTasksComplete": "noaction",
        "commonEnvironmentSettings": pairs(_environment(spec, run, options)),
        "metadata": pairs({**options.tags, "runspec": run}),
    }
    if reserves_exit_code(options):
        body |= ON_FAILURE
    if options.priority is not None:
        body["priority"] = options.priority
    if spec.max_parallel:
        body["maxParallelTasks"] = spec.max_parallel
    undo = batch("Job_Delete", {"jobId": run})
    return Step("job", f"make the job {run}", Scope.RUN, batch("Job_Add", body=body), undo)


def _environment(spec: Spec, run: str, options: BatchOptions) -> dict[str, Any]:
    secrets = {
        variable: {"$secret": options.secrets[key]}
        for variable, key in spec.secrets.items()
        if not key_vault.url(options.secrets[key])
    }
    if options.files == "signed":
        listed = signed.mark(signed.READ, signed.files_key(run, options))
        own = {"RUNSPEC_RUN": run, "RUNSPEC_FILES": listed, "RUNSPEC_WORDS": words(spec)}
        return {**spec.program_env, **secrets, **own}
    return {
        **spec.program_env,
        **secrets,
        "RUNSPEC_RUN": run,
        "RUNSPEC_STORE": layout.store(options),
        "RUNSPEC_BLOB_URL": layout.endpoint(options),
        **_way(options),
        **key_vault.environment(spec, options),
        "RUNSPEC_WORDS": words(spec),
    }


def _way(options: BatchOptions) -> dict[str, Any]:
    """Return the variable for access to the blobs: an identity of the machine, or a signature."""
    if options.identity:
        return {"RUNSPEC_IDENTITY": options.identity}
    return {"RUNSPEC_SAS": CONTAINER_SAS}


def words(spec: Spec) -> str:
    """Return the mapping from the variables of the contract to those of the service."""
    many = GANG_WORDS if nodes_each(spec) > 1 else ""
    return WORDS + many + (DISK if pool.image(spec) else BELOW)


def task(spec: Spec, run: str, facts: Facts, number: int) -> dict[str, Any]:
    """Return one task as Task_AddCollection needs it."""
    options: BatchOptions = facts.options
    nodes = nodes_each(spec)
    by_url = options.files == "signed"
    inside = signed.start(run, options) if by_url else _inside(options)
    command = signed.COMMAND if by_url else COMMAND
    found: dict[str, Any] = {
        "id": task_id(number),
        "commandLine": command if nodes == 1 else GANG_COMMAND,
        "environmentSettings": pairs({"RUNSPEC_INDEX" if by_url else "RUNSPEC_TASK": str(number)}),
        "constraints": _constraints(spec),
        "outputFiles": list(_uploads(run, options, number)),
    }
    if reserves_exit_code(options):
        found["exitConditions"] = CONDITIONS
    if nodes == 1:
        found["resourceFiles"] = [inside]
    else:
        # resourceFiles are copied to the first node only.
        found["multiInstanceSettings"] = {
            "numberOfInstances": nodes,
            "coordinationCommandLine": COORDINATION,
            "commonResourceFiles": [inside],
        }
    if pool.image(spec):
        found["containerSettings"] = _container(spec, options)
    if _as_root(spec, options):
        found["userIdentity"] = ROOT
    return found


def reserves_exit_code(options: BatchOptions) -> bool:
    """Return whether the exit code STOPS always means that the store refused access.

    The agent never exits with a program's code 77. Without an agent, the program's code is the task's.
    """
    return options.files == "agent"


def _as_root(spec: Spec, options: BatchOptions) -> bool:
    """Return whether only root can make folders in a container, or read files that blobfuse has mounted.

    https://learn.microsoft.com/en-us/azure/batch/virtual-file-mount#azure-blob-container
    """
    return pool.image(spec) is not None or "blob" in pool.kinds(spec, options)


def _inside(options: BatchOptions) -> dict[str, Any]:
    blob = layout.inside(options)
    if options.identity:
        url = f"{layout.endpoint(options)}/{options.container or ''}/{blob}"
        reference = {"resourceId": options.identity}
        return {"httpUrl": url, "filePath": INSIDE, "identityReference": reference}
    return {"httpUrl": {"$signed": f"r {blob}"}, "filePath": INSIDE}


def _uploads(run: str, options: BatchOptions, number: int) -> Iterator[dict[str, Any]]:
    """Yield the uploads of the output that a task prints, so that it outlives the node.

    Without an agent, the service also uploads the index of its times; a file that does not exist is no error.
    https://learn.microsoft.com/en-us/azure/batch/batch-task-output-files
    """
    where: dict[str, Any] = {"path": layout.key(options, "runs", run, "logs", str(number))}
    if options.identity:
        where["containerUrl"] = f"{layout.endpoint(options)}/{options.container or ''}"
        where["identityReference"] = {"resourceId": options.identity}
    else:
        where["containerUrl"] = CONTAINER_URL
    yield _upload("../std*.txt", where)
    if options.files == "signed":
        # With a wildcard, the path is that of a folder.
        yield _upload(f"{signed.TIMES}*", where)


def _upload(pattern: str, where: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "filePattern": pattern,
        "destination": {"container": where},
        "uploadOptions": {"uploadCondition": "taskcompletion"},
    }


def most_attempts(spec: Spec) -> int:
    """Return the most attempts of a task, besides those that end because the node was preempted."""
    elastic = spec.cluster.nodes.elastic  # the nodes count the failures of the program
    return spec.retry.attempts + (spec.retry.spot_attempts - 1 if elastic else 0)


def _constraints(spec: Spec) -> dict[str, Any]:
    found: dict[str, Any] = {
        "maxTaskRetryCount": most_attempts(spec) - 1,
        "retentionTime": RETENTION,
    }
    if limit := limit_s(spec):
        found["maxWallClockTime"] = f"PT{min(limit, LONGEST_S)}S"
    return found


def _container(spec: Spec, options: BatchOptions) -> dict[str, Any]:
    """Return the container of a task. GPUs are available without an option, as this page says:

    https://learn.microsoft.com/en-us/azure/batch/batch-docker-container-workloads
    """
    words = ["--rm", *ENTRYPOINT]
    if spec.container.shm:
        words.append(f"--shm-size={spec.container.shm}b")
    elif spec.cluster.gpus:
        words.append("--ipc=host")  # data loaders share batches in /dev/shm: 64 MiB is too small
    if spec.cluster.nodes.max > 1:
        words.append("--network=host")  # nodes connect by the addresses of the machines
    found: dict[str, Any] = {
        "imageName": pool.image(spec),
        "containerRunOptions": " ".join(words),
        "workingDirectory": "taskWorkingDirectory",
    }
    if options.pool and (options.registry or options.registry_user):
        # A pool of one's own need not know it: https://learn.microsoft.com/rest/api/batchservice/tasks/create-task
        found["registry"] = pool.registry(options)
    return found
