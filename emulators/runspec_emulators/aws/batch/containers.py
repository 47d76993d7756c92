"""The command, environment and log stream of a container."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from runspec_emulators.aws.batch import task_metadata
from runspec_emulators.aws.batch.jobs import Attempt, Job, wish
from runspec_emulators.aws.batch.resources import FARGATE, named
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.nodes import engine
from runspec_emulators.aws.nodes.engine import CannotStart, End, Running, Wanted
from runspec_emulators.aws.nodes.secret_values import read_secret
from runspec_emulators.aws.settings import Settings

NOBODY = "http://127.0.0.1:9"  # discard: nothing listens there
LOG_GROUP = "/aws/batch/job"
PLACEHOLDER = re.compile(r"Ref::([A-Za-z0-9_.-]+)")


def start(world: World, job: Job, attempt: Attempt, ended: Callable[[End], None]) -> Running:
    """Start the container of a job's attempt; raise CannotStart as `engine.start` does."""
    container = job.container or {}
    env = environment(world, job, attempt)
    emit = log_sink(world, job, attempt)
    linux = container.get("linuxParameters", {})
    wanted = Wanted(
        name=attempt.task,
        image=container["image"],
        command=command(job),
        env=env,
        memory_mib=int(wish(container).memory_mib),
        shared_memory_mib=linux.get("sharedMemorySize", 0),
        user=container.get("user", ""),
        init=linux.get("initProcessEnabled", False),
    )
    return engine.start(wanted, world.settings, emit, ended)


def command(job: Job) -> tuple[str, ...]:
    """Return the command with its placeholders replaced. "Job definition parameters", parameters."""
    values = {**job.definition.get("parameters", {}), **job.params.get("parameters", {})}
    return tuple(
        PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word)
        for word in (job.container or {}).get("command", ())
    )


def environment(world: World, job: Job, attempt: Attempt) -> dict[str, str]:
    """Return what the container finds in its environment, the strongest last."""
    container = job.container or {}
    env = dict(world.settings.machine_env)
    env["AWS_REGION"] = env.get("AWS_REGION", world.settings.region)
    if not world.settings.link_local:
        env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = machine(world, job, attempt)
    env.update({e["name"]: e.get("value", "") for e in container.get("environment", ())})
    env.update(secrets(container, world.settings))
    env.update(batch_variables(job, attempt))
    # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4.html
    base = "http://169.254.170.2" if world.settings.link_local else world.url
    env["ECS_CONTAINER_METADATA_URI_V4"] = f"{base}/v4/{attempt.token}"
    if world.settings.credentials_uri:
        env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = world.settings.credentials_uri
    return env


def machine(world: World, job: Job, attempt: Attempt) -> str:
    """Return where a container finds its machine's metadata. A Fargate task has no machine to ask.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-imds-client.html
    """
    environment = world.environments.get(job.environment or "")
    fargate = environment is not None and environment.kind in FARGATE
    return NOBODY if fargate else f"{world.url}{task_metadata.MACHINE}{attempt.token}"


def secrets(container: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Return the values of the secrets; raise CannotStart for one that is not there."""
    known = settings.secrets
    _log_in(container, known)
    return {
        secret["name"]: known[where]
        if (where := secret["valueFrom"]) in known
        else read_secret(settings.secrets_url, settings.region, where)
        for secret in container.get("secrets", ())
    }


def _log_in(container: Mapping[str, Any], known: Mapping[str, str]) -> None:
    """Raise CannotStart if the login of a private registry cannot be read, or is no user name and password.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/private-auth.html
    """
    if "repositoryCredentials" not in container:
        return
    name = container["repositoryCredentials"]["credentialsParameter"]
    try:
        login = json.loads(known[name])
        complete = {"username", "password"} <= login.keys() and "executionRoleArn" in container
    except (AttributeError, KeyError, ValueError):
        complete = False
    if not complete:
        raise CannotStart(
            "ResourceInitializationError: unable to pull secrets or registry auth: execution resource "
            f"retrieval failed: unable to retrieve registry auth from asm: failed to fetch secret {name}"
        )


def batch_variables(job: Job, attempt: Attempt) -> dict[str, str]:
    """https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html"""
    env = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(attempt.number),
        "AWS_BATCH_JQ_NAME": job.queue,
        "AWS_BATCH_CE_NAME": job.environment or "",
    }
    parent = job.parent
    if parent is None:
        return env
    if parent.nodes is None:
        env["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job.index)
        env["AWS_BATCH_JOB_ARRAY_SIZE"] = str(len(parent.children))
        return env
    env["AWS_BATCH_JOB_NODE_INDEX"] = str(job.index)
    env["AWS_BATCH_JOB_NUM_NODES"] = str(parent.nodes["numNodes"])
    env["AWS_BATCH_JOB_MAIN_NODE_INDEX"] = str(parent.nodes["mainNode"])
    if job is not parent.main:  # "This variable isn't present on the main node"
        address = parent.main.attempts[-1].address
        env["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = address
    return env


def log_sink(world: World, job: Job, attempt: Attempt) -> Callable[[int, str], None]:
    """Return where the lines of a container go.

    Group and stream: user guide, "Job states" and "Use the awslogs log driver", where
    awslogs-create-group "defaults to false".
    """
    configured = (job.container or {}).get("logConfiguration", {"logDriver": "awslogs"})
    if configured["logDriver"] != "awslogs":
        return lambda at_ms, text: None
    options = configured.get("options", {})
    group = options.get("awslogs-group", LOG_GROUP)
    if not world.logs.has_group(group):
        if group != LOG_GROUP and options.get("awslogs-create-group") != "true":
            raise CannotStart(
                "CannotStartContainerError: failed to initialize logging driver: failed to create "
                "Cloudwatch log stream: ResourceNotFoundException: "
                "The specified log group does not exist."
            )
        world.logs.create_group(group)
    definition = named(job.definition["arn"]).partition(":")[0]
    prefix = options.get("awslogs-stream-prefix", definition)
    attempt.log_group, attempt.log_stream = group, f"{prefix}/default/{attempt.task}"
    stream = attempt.log_stream
    return lambda at_ms, text: world.logs.write(group, stream, [(at_ms, text)], create=True)
