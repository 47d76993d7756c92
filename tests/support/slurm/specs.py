"""Specs for a cluster that is nobody's, and what a survey would have found of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider import Facts, Problem, Source, Spec
from runspec_slurm.options import SlurmOptions
from runspec_slurm.provider import PROVIDER

RUN = "job-abc123"
CPU = {
    "default": True,
    "state": "up",
    "max_time_s": 86_400,
    "default_time_s": 3600,
    "max_nodes": None,
    "min_nodes": 1,
    "nodes": 4,
    "cpus": 8,
    "memory_mb": 16_000,
    "disk_mb": None,
    "gpus": {},
}
GPU = {**CPU, "default": False, "nodes": 2, "disk_mb": 100_000, "gpus": {"v100": 4, "a100": 8}}
SPOT = {**CPU, "default": False}
FOUND: dict[str, Any] = {
    "version": "22.05.8",
    "max_array": 1001,
    "max_jobs": 10_000,
    "select": "cons_tres",
    "accounting": False,
    "containers": ["podman", "apptainer"],
    "mpi": ["pmix", "pmi2"],
    "python": "3.11",
    "partitions": {"cpu": CPU, "gpu": GPU, "spot": SPOT},
}


def spec(**fields: Any) -> Spec:
    found = {"apiVersion": "runspec/v1", "name": "job", "provider": "slurm", "command": ["true"]}
    return Spec.model_validate({**found, **fields})


def facts(
    wanted: Spec, options: Mapping[str, Any] | None = None, found: Mapping[str, Any] | None = FOUND
) -> Facts:
    """Give the facts of a cluster; *found* is None for one that nobody has asked."""
    return Facts(
        SlurmOptions.model_validate(dict(options or {})),
        {m.name: Source("sha256:" + "5" * 64, 3, 4096) for m in wanted.mounts},
        ("six==1.17.0",) if wanted.container.requirements else (),
        {} if found is None else {"slurm": found},
    )


def with_(partition: Mapping[str, Any] = {}, **said: Any) -> dict[str, Any]:
    """Give what is found where the default partition, or the cluster, is another in these things."""
    return {**FOUND, "partitions": {**FOUND["partitions"], "cpu": {**CPU, **partition}}, **said}


def problems(wanted: Spec, there: Facts) -> list[Problem]:
    return list(PROVIDER.check(wanted, there))


def sbatch(wanted: Spec, there: Facts) -> tuple[list[str], str]:
    """Give the words and the script of the one call that submits."""
    params = PROVIDER.plan(wanted, RUN, there)[-1].do.params
    return params["argv"], params["script"]
