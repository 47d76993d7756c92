"""Make the body of the request that starts a job of Batch AI."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from runspec_azure.batchai.job import toolkits
from runspec_azure.batchai.options import BatchAiOptions
from runspec_azure.batchai.store import volumes
from runspec_jobs.provider import Facts, Spec, variable

UNITS = (
    "b",
    "k",
    "m",
    "g",
)  # https://docs.docker.com/reference/cli/docker/container/run/ (--shm-size)


def properties(
    spec: Spec, run: str, task: int, values: Mapping[str, str], cluster: str, facts: Facts
) -> dict[str, Any]:
    """Return the `properties` of the job of one task of *spec*."""
    options: BatchAiOptions = facts.options
    found: dict[str, Any] = {
        "schedulingPriority": options.priority,
        "cluster": {"id": cluster},
        "mountVolumes": volumes.mounted(volumes.used(spec, options), options),
        "nodeCount": spec.cluster.nodes.max,
        "containerSettings": _container(spec, options),
        **toolkits.settings(spec, values, options),
        "jobPreparation": _preparation(spec, facts),
        "stdOutErrPathPrefix": volumes.logs(options),
        "inputDirectories": volumes.inputs(spec, facts),
        "outputDirectories": volumes.outputs(spec, run, options),
        "environmentVariables": _environment(spec, run, task, values, options),
        "secrets": _secrets(spec, options),
        "constraints": _limit(spec, options),
    }
    return {key: value for key, value in found.items() if value not in (None, {}, [])}


def _limit(spec: Spec, options: BatchAiOptions) -> dict[str, str] | None:
    """Return the time limit, which the service applies to all attempts together."""
    if spec.timeout is None:
        return None
    return {"maxWallClockTime": f"PT{spec.timeout * most_attempts(spec, options)}S"}


def most_attempts(spec: Spec, options: BatchAiOptions) -> int:
    """Return the most attempts of a task, which are more than one with some toolkits only."""
    return spec.retry.attempts if toolkits.retried(spec, options) else 1


def image(spec: Spec, options: BatchAiOptions) -> str | None:
    """Return the image of *spec*, or the profile's in place of it.

    It is None for an image that exists on one machine only, if requirements replace it.
    """
    named = spec.container.image
    if named is None or named in options.images:
        return options.images[named] if named else None
    alone = named.startswith("localhost/") and spec.container.requirements is not None
    return None if alone else named


def _container(spec: Spec, options: BatchAiOptions) -> dict[str, Any] | None:
    named = image(spec, options)
    if named is None:
        return None
    source: dict[str, Any] = {"image": named}
    if registry := options.registry:
        if registry.server:
            source["serverUrl"] = registry.server
        if registry.username:
            word = registry.password
            secret = word and volumes.credential(
                word, options, "password", "passwordSecretReference"
            )
            source["credentials"] = {"username": registry.username, **(secret or {})}
    shm = {"shmSize": docker_size(spec.container.shm)} if spec.container.shm else {}
    return {"imageSourceRegistry": source, **shm}


def docker_size(count: int) -> str:
    """Return bytes as docker writes them, in the largest unit that leaves a whole number.

    >>> docker_size(8 << 30), docker_size(1536 << 20)
    ('8g', '1536m')
    """
    unit = 0
    while unit < len(UNITS) - 1 and count % 1024 == 0:
        count, unit = count // 1024, unit + 1
    return f"{count}{UNITS[unit]}"


def installs(spec: Spec, options: BatchAiOptions) -> bool:
    """Return whether the nodes install packages; an image that the settings use instead contains them."""
    return spec.container.requirements is not None and spec.container.image not in options.images


def _preparation(spec: Spec, facts: Facts) -> dict[str, str] | None:
    """Return the preparation, which installs packages: https://pip.pypa.io/en/stable/cli/pip_install/"""
    options: BatchAiOptions = facts.options
    lines = [options.preparation] if options.preparation else []
    if installs(spec, options) and facts.requirements:
        wanted = " ".join(shlex.quote(line) for line in facts.requirements)
        lines.append(f"python3 -m pip install --no-cache-dir --disable-pip-version-check {wanted}")
    return {"commandLine": " && ".join(lines)} if lines else None


def _environment(
    spec: Spec, run: str, task: int, values: Mapping[str, str], options: BatchAiOptions
) -> list[dict[str, str]]:
    """Return the user's variables, and those of runspec that are known before the job begins."""
    known = spec.program_env if options.contract else dict(spec.env)
    if options.contract:
        known |= {
            "RUNSPEC_RUN": run,
            "RUNSPEC_TASK": str(task),
            "RUNSPEC_ATTEMPT": "1",
            "RUNSPEC_NODES": str(spec.cluster.nodes.max),
            "RUNSPEC_SLOTS": str(spec.processes_per_node),
        }
        if spec.global_batch is not None:
            known["RUNSPEC_GLOBAL_BATCH"] = str(spec.global_batch)
        if toolkits.KINDS[toolkits.toolkit(spec, options)].scripted:
            known |= toolkits.places(spec, options)
    known |= {variable("sweep", name): value for name, value in values.items()}
    return [{"name": name, "value": value} for name, value in known.items()]


def _secrets(spec: Spec, options: BatchAiOptions) -> list[dict[str, Any]]:
    return [
        {"name": name, **volumes.credential(word, options, "value", "valueSecretReference")}
        for name, word in spec.secrets.items()
    ]
