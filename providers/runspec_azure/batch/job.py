"""The job of a run and its tasks: one for each combination of a sweep, on one node or several."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_agent.base import image_entrypoint
from runspec_azure import store_layout
from runspec_azure.batch import signed
from runspec_azure.batch.decision import Decision
from runspec_azure.batch.infrastructure import pool as pools, run_secrets
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import batch, pairs
from runspec_azure.session import clouds
from runspec_jobs.provider import Request, Scope, Spec, Step

# https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/create-task-collection
AT_ONCE = 100
RETENTION = "P7D"  # how long the files of a task are kept, if its node still exists
READ = "read_entrypoint"  # the operation of the request
CANCELLED = "cancelled by runspec"
AGENT_FILE = "inside.pyz"

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


def steps(decision: Decision, spec: Spec, run: str, pool: str) -> Iterator[Step]:
    """Yield the steps that make the job on *pool* and its tasks, and set the job to end with the last of them.

    An empty job would end at once if this were set before the tasks exist.
    https://learn.microsoft.com/en-us/rest/api/batchservice/jobs/create-job#onalltaskscomplete
    """
    yield _job(decision, spec, run, pool)
    count = decision.tasks
    for number, start in enumerate(range(0, count, AT_ONCE)):
        end = min(count, start + AT_ONCE)
        which = f"task {start}" if end - start == 1 else f"tasks {start} to {end - 1}"
        body = {
            "value": [
                task(decision, run, i, has_entrypoint=bool(spec.container.entrypoint))
                for i in range(start, end)
            ]
        }
        do = batch("Task_AddCollection", {"jobId": run}, body)
        yield Step(f"tasks-{number}", f"submit {which}", Scope.RUN, do)
    do = batch("Job_Patch", {"jobId": run}, {"onAllTasksComplete": "terminatejob"})
    yield Step("last", "set the job to end with its last task", Scope.RUN, do)


def entrypoint(decision: Decision, spec: Spec) -> Iterator[Step]:
    """Yield the step that reads the ENTRYPOINT of the image, which a task replaces by the agent and then runs.

    No task can read it: an image does not contain its configuration.
    """
    image = decision.image
    if spec.container.entrypoint and image:
        do = Request("registry", READ, {"image": _image(decision)})
        yield Step("entrypoint", f"read the ENTRYPOINT of {image} from its registry", Scope.RUN, do)


def _image(decision: Decision) -> Any:
    """Return the image of the job; one that runspec builds gets its digest from the push."""
    return {"$ref": "image.image"} if decision.built else decision.image


def _job(decision: Decision, spec: Spec, run: str, pool: str) -> Step:
    """Return the step that makes the job.

    Tasks depend on tasks of their own job alone, so the service can let no run of a chain wait for another one:
    https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/create-task#taskdependencies
    """
    options = decision.options
    body: dict[str, Any] = {
        "id": run,
        "displayName": spec.name,
        "poolInfo": {"poolId": pool},
        "onAllTasksComplete": "noaction",
        "commonEnvironmentSettings": pairs(_environment(decision, spec, run)),
        "metadata": pairs({**options.tags, "runspec": run}),
    }
    if reserves_exit_code(options):
        body |= ON_FAILURE
    if options.priority is not None:
        body["priority"] = options.priority
    if decision.max_parallel:
        body["maxParallelTasks"] = decision.max_parallel
    undo = batch("Job_Delete", {"jobId": run})
    return Step("job", f"make the job {run}", Scope.RUN, batch("Job_Add", body=body), undo)


def _environment(decision: Decision, spec: Spec, run: str) -> dict[str, Any]:
    options = decision.options
    kept = run_secrets.carried(spec, options)
    secrets = {
        variable: {"$secret": options.secrets[key]}
        for variable, key in spec.secrets.items()
        if not vault_url(options.secrets[key]) and variable not in kept
    }
    variables: dict[str, Any] = {**spec.program_env, **secrets}
    if spec.container.entrypoint:
        variables[image_entrypoint.VARIABLE] = {"$ref": "entrypoint.code"}
    if options.files == "signed":
        listed = signed.mark(signed.READ, signed.files_key(run, options))
        return {
            **variables,
            "RUNSPEC_RUN": run,
            "RUNSPEC_FILES": listed,
            "RUNSPEC_WORDS": words(decision),
        }
    return {
        **variables,
        "RUNSPEC_RUN": run,
        "RUNSPEC_STORE": store_layout.store(options),
        "RUNSPEC_BLOB_URL": store_layout.endpoint(options),
        **_access(options),
        **vault_environment(spec, run, options),
        "RUNSPEC_WORDS": words(decision),
    }


def _access(options: BatchOptions) -> dict[str, Any]:
    """Return the variable for access to the blobs: an identity of the machine, or a signature."""
    if options.identity:
        return {"RUNSPEC_IDENTITY": options.identity}
    return {"RUNSPEC_SAS": CONTAINER_SAS}


def words(decision: Decision) -> str:
    """Return the mapping from the variables of the contract to those of the service."""
    gang = GANG_WORDS if decision.nodes > 1 else ""
    return WORDS + gang + (DISK if decision.image else BELOW)


def task(
    decision: Decision, run: str, number: int, *, has_entrypoint: bool = False
) -> dict[str, Any]:
    """Return one task as Task_AddCollection needs it; *has_entrypoint* if it runs that of its image."""
    options, nodes = decision.options, decision.nodes
    by_url = options.files == "signed"
    agent = signed.start(run, options) if by_url else _agent_file(options)
    command = signed.COMMAND if by_url else COMMAND
    body: dict[str, Any] = {
        "id": task_id(number),
        "commandLine": command if nodes == 1 else GANG_COMMAND,
        "environmentSettings": pairs({"RUNSPEC_INDEX" if by_url else "RUNSPEC_TASK": str(number)}),
        "constraints": _constraints(decision),
        "outputFiles": list(_uploads(run, options, number)),
    }
    if reserves_exit_code(options):
        body["exitConditions"] = CONDITIONS
    if nodes == 1:
        body["resourceFiles"] = [agent]
    else:
        # resourceFiles are copied to the first node only.
        body["multiInstanceSettings"] = {
            "numberOfInstances": nodes,
            "coordinationCommandLine": COORDINATION,
            "commonResourceFiles": [agent],
        }
    if decision.image:
        body["containerSettings"] = _container(decision, has_entrypoint)
    if _needs_root(decision):
        body["userIdentity"] = ROOT
    return body


def reserves_exit_code(options: BatchOptions) -> bool:
    """Return whether the exit code STOPS always means that the store refused access.

    The agent never exits with a program's code 77. Without an agent, the program's code is the task's.
    """
    return options.files == "agent"


def _needs_root(decision: Decision) -> bool:
    """Return whether only root can make folders in a container, or read files that blobfuse has mounted.

    https://learn.microsoft.com/en-us/azure/batch/virtual-file-mount#azure-blob-container
    """
    return decision.image is not None or "blob" in pools.shared_kinds(decision)


def _agent_file(options: BatchOptions) -> dict[str, Any]:
    blob = store_layout.agent_key(options)
    if options.identity:
        url = f"{store_layout.endpoint(options)}/{options.container or ''}/{blob}"
        reference = {"resourceId": options.identity}
        return {"httpUrl": url, "filePath": AGENT_FILE, "identityReference": reference}
    return {"httpUrl": {"$signed": f"r {blob}"}, "filePath": AGENT_FILE}


def _uploads(run: str, options: BatchOptions, number: int) -> Iterator[dict[str, Any]]:
    """Yield the uploads of the output that a task prints, so that it outlives the node.

    Without an agent, the service also uploads the index of its times; a file that does not exist is no error.
    https://learn.microsoft.com/en-us/azure/batch/batch-task-output-files
    """
    where: dict[str, Any] = {"path": store_layout.key(options, "runs", run, "logs", str(number))}
    if options.identity:
        where["containerUrl"] = f"{store_layout.endpoint(options)}/{options.container or ''}"
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


def _constraints(decision: Decision) -> dict[str, Any]:
    constraints: dict[str, Any] = {
        "maxTaskRetryCount": decision.attempts - 1,
        "retentionTime": RETENTION,
    }
    if decision.limit_s:
        constraints["maxWallClockTime"] = f"PT{min(decision.limit_s, LONGEST_S)}S"
    return constraints


def _container(decision: Decision, has_entrypoint: bool) -> dict[str, Any]:
    """Return the container of a task. GPUs of NVIDIA are available without an option, as this page says:

    https://learn.microsoft.com/en-us/azure/batch/batch-docker-container-workloads
    """
    options = decision.options
    words = ["--rm", *ENTRYPOINT]
    if decision.shm_bytes:
        words.append(f"--shm-size={decision.shm_bytes}b")
    elif decision.request.gpus:
        words.append("--ipc=host")  # data loaders share batches in /dev/shm: 64 MiB is too small
    words += [f"--ulimit={name}={value}:{value}" for name, value in decision.ulimits.items()]
    if decision.has_rocm:
        # https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html
        words += ["--device=/dev/kfd", "--device=/dev/dri"]
    if decision.connected:
        words.append("--network=host")  # nodes connect by the addresses of the machines
    container: dict[str, Any] = {
        # By the digest whose ENTRYPOINT was read: a tag may have moved since.
        "imageName": {"$ref": "entrypoint.image"} if has_entrypoint else _image(decision),
        "containerRunOptions": " ".join(words),
        "workingDirectory": "taskWorkingDirectory",
    }
    if options.pool and (registries := pools.registries(decision)):
        # A pool of one's own need not know it: https://learn.microsoft.com/rest/api/batchservice/tasks/create-task
        container["registry"] = registries[-1]
    return container


# Secrets in a key vault: the plan has their URLs, and the job reads them with its identity.


VAULT_KIND = "azure-kv:"
# The part before # is the id of the vault, which azure-batch-ai needs.
# https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates#object-identifiers
VAULT_SOURCE = re.compile(
    r"azure-kv:(?:[^#]*#)?(https://[^/#?\s]+/secrets/[0-9A-Za-z-]{1,127}(?:/[0-9a-f]{32})?)/?"
)


def vault_url(source: str) -> str | None:
    """Return the URL of the secret that *source* names; None if it is not a secret of a key vault.

    >>> vault_url("azure-kv:/subscriptions/1/vaults/v#https://v.vault.azure.net/secrets/hf")
    'https://v.vault.azure.net/secrets/hf'
    """
    match = VAULT_SOURCE.fullmatch(source)
    return match and match[1]


def vault_environment(spec: Spec, run: str, options: BatchOptions) -> Mapping[str, str]:
    """Return variables with the URLs of the secrets that the job reads, and the audience of its tokens, if any."""
    sources = {variable: options.secrets[key] for variable, key in spec.secrets.items()}
    listed = {variable: url for variable, s in sources.items() if (url := vault_url(s))}
    listed |= run_secrets.list_urls(spec, run, options)
    if not listed:
        return {}
    audience = clouds.of(options).vault_audience
    return {
        "RUNSPEC_VAULT": json.dumps(listed, sort_keys=True),
        "RUNSPEC_VAULT_AUDIENCE": audience,
    }
