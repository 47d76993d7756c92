"""Make the body of the request that starts a job of Batch AI."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_batchai import store_volumes
from runspec_batchai.decision import Decision
from runspec_batchai.job import toolkits
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Facts, Spec
from runspec_jobs.provider.commands import variable

UNITS = (
    "b",
    "k",
    "m",
    "g",
)  # https://docs.docker.com/reference/cli/docker/container/run/ (--shm-size)
BUILT_WITH = '"$AZ_BATCHAI_JOB_TEMP"/built-with.txt'


class Task(NamedTuple):
    """One task of a run, with its values of the sweep."""

    run: str
    number: int
    values: Mapping[str, str]


def properties(
    decision: Decision, spec: Spec, task: Task, cluster: str, facts: Facts
) -> dict[str, Any]:
    """Return the `properties` of the job of *task*, which runs on the cluster with the id *cluster*."""
    options = decision.options
    job: dict[str, Any] = {
        "schedulingPriority": options.priority,
        "cluster": {"id": cluster},
        "mountVolumes": store_volumes.mounted(decision.volumes, options),
        "nodeCount": decision.nodes,
        "containerSettings": _container(decision),
        **toolkits.settings(decision, spec, task.values),
        "jobPreparation": _preparation(decision, spec, facts.requirements),
        "stdOutErrPathPrefix": store_volumes.logs(options),
        "inputDirectories": store_volumes.inputs(spec, facts),
        "outputDirectories": store_volumes.outputs(spec, task.run, options),
        "environmentVariables": _environment(decision, spec, task),
        "secrets": _secrets(spec, options),
        "constraints": (
            {"maxWallClockTime": f"PT{decision.limit_s}S"} if decision.limit_s else None
        ),
    }
    return {key: value for key, value in job.items() if value not in (None, {}, [])}


def _container(decision: Decision) -> dict[str, Any] | None:
    options = decision.options
    if decision.image is None:
        return None
    source: dict[str, Any] = {"image": decision.image}
    if registry := options.registry:
        if registry.server:
            source["serverUrl"] = registry.server
        if registry.username:
            word = registry.password
            secret = word and store_volumes.credential(
                word, options, "password", "passwordSecretReference"
            )
            source["credentials"] = {"username": registry.username, **(secret or {})}
    shm = {"shmSize": docker_size(decision.shm_bytes)} if decision.shm_bytes else {}
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


def _preparation(
    decision: Decision, spec: Spec, requirements: tuple[str, ...]
) -> dict[str, str] | None:
    """Return the preparation, which installs packages: https://pip.pypa.io/en/stable/cli/pip_install/

    Before pip 25.3, only PIP_CONSTRAINT reaches the builds of source distributions.
    """
    options = decision.options
    lines = [options.preparation] if options.preparation else []
    if decision.installs and requirements:
        pip = "python3 -m pip install --no-cache-dir --disable-pip-version-check"
        if spec.container.build_constraints:
            limits = " ".join(map(shlex.quote, spec.container.build_constraints))
            lines.append(f"printf '%s\\n' {limits} >{BUILT_WITH}")
            pip = f"PIP_CONSTRAINT={BUILT_WITH} PIP_BUILD_CONSTRAINT={BUILT_WITH} {pip}"
        lines.append(f"{pip} {' '.join(map(shlex.quote, requirements))}")
    return {"commandLine": " && ".join(lines)} if lines else None


def _environment(decision: Decision, spec: Spec, task: Task) -> list[dict[str, str]]:
    """Return the user's variables, and those of runspec that are known before the job begins."""
    has_contract = decision.options.contract
    known = spec.program_env if has_contract else {**spec.param_env, **spec.env}
    if has_contract:
        known |= {
            "RUNSPEC_RUN": task.run,
            "RUNSPEC_TASK": str(task.number),
            "RUNSPEC_ATTEMPT": "1",
            "RUNSPEC_NODES": str(decision.nodes),
            "RUNSPEC_SLOTS": str(spec.processes_per_node),
        }
        if spec.global_batch is not None:
            known["RUNSPEC_GLOBAL_BATCH"] = str(spec.global_batch)
        if toolkits.KINDS[decision.toolkit].scripted:
            known |= decision.paths
    known |= {variable("sweep", name): value for name, value in task.values.items()}
    return [{"name": name, "value": value} for name, value in known.items()]


def _secrets(spec: Spec, options: BatchAiOptions) -> list[dict[str, Any]]:
    return [
        {"name": name, **store_volumes.credential(word, options, "value", "valueSecretReference")}
        for name, word in spec.secrets.items()
    ]
