"""The job definition, which describes the container. Its name is a hash of its content, so it is registered once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_aws import signed, timing
from runspec_aws.decision import Decision
from runspec_aws.infrastructure import built_image, lustre
from runspec_aws.naming import batch, tags
from runspec_aws.options import OWN_GROUP, AwsOptions
from runspec_aws.resources import get_chip_access
from runspec_aws.store import run_secrets
from runspec_aws.store.layout import AGENT_SHA256, SHARED, store
from runspec_jobs.provider import Facts, Scope, Spec, Step, content_name
from runspec_jobs.provider.commands import argv
from runspec_jobs.provider.job_manifest import limit_s
from runspec_jobs.provider.payload import strip_boot
from runspec_jobs.provider.registry_login import registry_of

MIB = 1 << 20
MAX_BYTES = 24 * 1024  # https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
AGAIN = "75"  # the exit code of runspec_agent.job.agent when another attempt is needed
LEAST_NODES = 2
BOOT = strip_boot()

# RUNSPEC_* variables and the service's variables with their values: see docs/inside.md. The main node does not get
# its own address, so nodes find each other through the store.
# https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html
WORDS = (
    "RUNSPEC_JOB=AWS_BATCH_JOB_ID RUNSPEC_ATTEMPT=AWS_BATCH_JOB_ATTEMPT "
    "RUNSPEC_INDEX=AWS_BATCH_JOB_ARRAY_INDEX RUNSPEC_RANK=AWS_BATCH_JOB_NODE_INDEX"
)
START = (
    "for p in python3 python; do command -v $p >/dev/null 2>&1 && "
    'exec $p -IS -c "$0" "$@"; done; '
    "echo 'runspec: this image has no python3' >&2; exit 127"
)

# Which attempts are followed by another one; the first match decides, and without a match there is another attempt:
# https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html
RECLAIMED = {"EC2": "Host EC2*", "FARGATE": "Your Spot Task was interrupted*"}
LEFT = "143"
NOT_PULLED = "CannotPull*"
EVALUATE = (
    {"onExitCode": AGAIN, "action": "RETRY"},
    # A container that got SIGTERM: its spot machine is being reclaimed. Batch never retries a job that was terminated
    # or has timed out.
    {"onExitCode": LEFT, "action": "RETRY"},
    {"onReason": "CannotPullContainerError: context canceled*", "action": "RETRY"},
    {"onStatusReason": "*", "action": "EXIT"},
)


def content(spec: Spec, decision: Decision, facts: Facts) -> dict[str, Any]:
    """Return the content of the definition without its name and tags."""
    options: AwsOptions = facts.options
    container = _container(spec, decision, facts)
    definition: dict[str, Any] = {
        "retryStrategy": retry_strategy(decision, options),
        "propagateTags": True,
    }
    if decision.shape.is_gang:
        if decision.machines:  # required for a queue with several instance types
            container["instanceType"] = decision.machines[0]
        nodes = {
            "targetNodes": "0:",
            "container": container,
        }  # open-ended: each job sets its number of nodes
        properties = {"numNodes": LEAST_NODES, "mainNode": 0, "nodeRangeProperties": [nodes]}
        definition |= {"type": "multinode", "nodeProperties": properties}
    else:
        definition |= {"type": "container", "containerProperties": container}
        definition["platformCapabilities"] = ["FARGATE" if options.fargate else "EC2"]
    if limit := limit_s(spec):
        definition["timeout"] = {"attemptDurationSeconds": limit}
    return definition


def retry_strategy(decision: Decision, options: AwsOptions) -> dict[str, Any]:
    """Return the retry strategy. With signed URLs, the agent keeps no count, so Batch counts all failures."""
    rules = list(_rules(decision, options))
    if options.files == "role":
        return {"attempts": decision.attempts, "evaluateOnExit": rules}
    if decision.program_attempts > 1:
        always = {"onReason": "*", "action": "RETRY"}
        return {"attempts": decision.program_attempts, "evaluateOnExit": [always]}
    rules = [rule for rule in rules if rule.get("onExitCode") != AGAIN]
    return {"attempts": decision.attempts, "evaluateOnExit": rules}


def _rules(decision: Decision, options: AwsOptions) -> Iterator[dict[str, str]]:
    """Yield the rules for attempts after which the agent has decided, and for those whose end it does not see.

    AWS Batch takes five: https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html
    """
    after_loss = {} if decision.actions["lost"] != "stop" else {"action": "EXIT"}
    yield _reclaimed(options) | after_loss
    for rule in EVALUATE:
        if rule.get("onExitCode") == LEFT:
            if decision.on_spot:
                yield rule | after_loss
        elif "onReason" not in rule or decision.actions["image"] is None:
            yield rule
        elif decision.actions["image"] == "retry":
            yield {"onReason": NOT_PULLED, "action": "RETRY"}


def _reclaimed(options: AwsOptions) -> dict[str, str]:
    """Return the rule for reclaimed machines. Fargate's text is as users report it, since it is not documented.

    See docs/unverified.md, aws-30 and aws-31.
    """
    reason = RECLAIMED["FARGATE" if options.fargate else "EC2"]
    return {"onStatusReason": reason, "action": "RETRY"}


def size(spec: Spec, decision: Decision, facts: Facts) -> int:
    """Return the size of the definition as it is sent, in bytes."""
    return len(json.dumps(content(spec, decision, facts)).encode())


def step(spec: Spec, decision: Decision, run: str, facts: Facts) -> Step:
    """Return the step that registers the definition.

    Equal definitions share one, and no run adds a revision. A definition with secrets of a run belongs to that run.
    """
    definition = content(spec, decision, facts)
    built = built_image.image(
        spec, decision, facts
    )  # of which the definition has a digest, when it is known
    made = {**definition, "built": built} if built else definition
    name, scope, own = content_name(spec.name, made), Scope.SITE, {}
    if run_secrets.carried(spec, facts.options):
        name, scope, own = f"runspec-{run}", Scope.RUN, {"run": run}
    do = batch(
        "register_job_definition",
        jobDefinitionName=name,
        **definition,
        tags=tags(facts.options, kind="definition", job=spec.name, **own),
    )
    undo = batch("deregister_job_definition", jobDefinition={"$ref": "definition.jobDefinitionArn"})
    return Step(
        "definition", "register the job definition", scope, do, undo, timing.DEFAULT.settle_s
    )


def _container(spec: Spec, decision: Decision, facts: Facts) -> dict[str, Any]:
    options: AwsOptions = facts.options
    built = built_image.image(spec, decision, facts)
    named = built or image(spec, options)
    container: dict[str, Any] = {
        "image": {"$ref": "image.image"} if built else named,
        "command": [*_start(options), *argv(spec)],
        "resourceRequirements": decision.node.requirements,
        "environment": _environment(spec, decision, options),
        "logConfiguration": _logs(options),
        "privileged": False,
    }
    if options.job_role:
        container["jobRoleArn"] = options.job_role
    if options.execution_role:
        container["executionRoleArn"] = options.execution_role
    if options.registry_secret and registry_of(named) == options.registry:
        # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/private-auth.html
        arn = options.registry_secret.partition(":")[2]
        container["repositoryCredentials"] = {"credentialsParameter": arn}
    if spec.secrets:
        container["secrets"] = [
            {
                "name": variable,
                "valueFrom": run_secrets.value_from(variable, options.secrets[key]),
            }
            for variable, key in spec.secrets.items()
        ]
    if options.user:
        container["user"] = options.user
    if options.fargate:
        del container["privileged"]  # Fargate refuses this field even with the value false
        container |= _fargate(decision, options)
    else:
        container |= _linux(spec, decision, options)
    return container | _volumes(decision.shared, options)


def _start(options: AwsOptions) -> tuple[str, ...]:
    return signed.START if options.files == "signed" else ("/bin/sh", "-c", START, BOOT)


def image(spec: Spec, options: AwsOptions) -> str:
    """Return the image of *spec*; an image that only one machine has is replaced by the default image."""
    wanted = spec.container.image
    return options.image if wanted is None or wanted.startswith("localhost/") else wanted


def _environment(spec: Spec, decision: Decision, options: AwsOptions) -> list[dict[str, str]]:
    access = get_chip_access(decision.machine.gpu_type)
    variables = {**(access.variables if access else {}), **spec.program_env}
    if options.files == "role":
        variables |= {
            "RUNSPEC_STORE": store(options),
            "RUNSPEC_REGION": options.region or "",
            "RUNSPEC_INSIDE_SHA256": AGENT_SHA256,
        }
    variables["RUNSPEC_WORDS"] = WORDS
    return [{"name": key, "value": value} for key, value in variables.items()]


def _logs(options: AwsOptions) -> dict[str, Any]:
    """Return the log configuration. In blocking mode, a full buffer delays the job instead of dropping lines.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/using_awslogs.html
    """
    settings = {"awslogs-group": options.log_group, "mode": "blocking"}
    if options.log_group != OWN_GROUP:
        settings["awslogs-create-group"] = (
            "true"  # without the log group, the container does not start
        )
    if options.region:
        settings["awslogs-region"] = options.region
    return {"logDriver": "awslogs", "options": settings}


def _fargate(decision: Decision, options: AwsOptions) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "networkConfiguration": {"assignPublicIp": "ENABLED" if options.public_ip else "DISABLED"}
    }
    if decision.disk_gib:
        fields["ephemeralStorage"] = {"sizeInGiB": decision.disk_gib}
    return fields


def _linux(spec: Spec, decision: Decision, options: AwsOptions) -> dict[str, Any]:
    linux: dict[str, Any] = {}
    ulimits: dict[str, int] = {**options.ulimits, **spec.ulimits.given}
    fields: dict[str, Any] = {}
    shm_mib = -(-spec.container.shm // MIB) if spec.container.shm else 0
    if not shm_mib and decision.node.gpus:
        # data loaders share batches in /dev/shm: 64 MiB is too small
        shm_mib = decision.node.memory_mib // 2
    if shm_mib:
        linux["sharedMemorySize"] = shm_mib
    devices = []
    if decision.adapters:
        # https://docs.aws.amazon.com/batch/latest/userguide/efa.html
        devices += _devices("/dev/infiniband/uverbs", decision.adapters, "READ", "WRITE", "MKNOD")
        ulimits["memlock"] = -1
    access = get_chip_access(decision.machine.gpu_type)
    if access and access.device:
        devices += _devices(access.device, decision.chips, "READ", "WRITE")
    if devices:
        linux["devices"] = devices
    if ulimits:
        fields["ulimits"] = [
            {"name": name, "softLimit": limit, "hardLimit": limit}
            for name, limit in sorted(ulimits.items())
        ]
    return fields | ({"linuxParameters": linux} if linux else {})


def _devices(name: str, count: int, *permissions: str) -> list[dict[str, Any]]:
    paths = [f"{name}{n}" for n in range(count)]
    return [
        {"hostPath": path, "containerPath": path, "permissions": [*permissions]} for path in paths
    ]


def _volumes(shared: Mapping[str, bool], options: AwsOptions) -> dict[str, Any]:
    """Return the volumes and mount points of the *shared* file systems, each once."""
    if not shared:
        return {}
    return {
        "volumes": [_volume(key, options) for key in shared],
        "mountPoints": [
            {"sourceVolume": key, "containerPath": f"{SHARED}/{key}", "readOnly": read_only}
            for key, read_only in shared.items()
        ],
    }


def _volume(key: str, options: AwsOptions) -> dict[str, Any]:
    """Return a volume: https://docs.aws.amazon.com/batch/latest/userguide/efs-volumes.html"""
    where = options.shared[key]
    kind, _, place = where.partition(":")
    if kind == "host":
        return {"name": key, "host": {"sourcePath": place}}
    if lustre.is_lustre(where):
        return {"name": key, "host": {"sourcePath": lustre.folder(where)}}
    system, _, access = place.partition(":")
    efs: dict[str, Any] = {"fileSystemId": system, "transitEncryption": "ENABLED"}
    if access:
        iam = "ENABLED" if options.job_role else "DISABLED"  # the job's role mounts the file system
        efs["authorizationConfig"] = {"accessPointId": access, "iam": iam}
    return {"name": key, "efsVolumeConfiguration": efs}
