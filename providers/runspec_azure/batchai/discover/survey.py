"""What a subscription says of its quotas, before a cluster is made."""

from __future__ import annotations

import os
from typing import Any

from runspec_azure.batchai import infrastructure
from runspec_azure.batchai.naming import batchai
from runspec_azure.batchai.options import BatchAiOptions
from runspec_azure.batchai.session import Arm
from runspec_jobs.provider import RunspecError, Spec

NO_MPIRUN = "RUNSPEC_REHEARSAL_NO_MPIRUN"  # set while jobs are processes of a machine without one


def survey(spec: Spec, options: BatchAiOptions) -> dict[str, Any]:
    """Return what the subscription says, and what a rehearsal lacks."""
    lacks = {"mpirun": False} if NO_MPIRUN in os.environ else {}
    return lacks | _quotas(spec, options)


def _quotas(spec: Spec, options: BatchAiOptions) -> dict[str, Any]:
    """Return what is in use and the limits, by the names that usages have.

    Nothing where the cluster is there already: it is among what is in use, and nothing more is
    needed. No step of a plan depends on it, so that a plan is the same tomorrow.
    """
    try:
        arm = Arm(options, looks=1)
        where = batchai(
            "Clusters_Get", options, {"clusterName": infrastructure.name(spec, options)}
        )
        if arm.look("Clusters", where.params["path"]) is not None:
            return {}
        return {"quotas": {name: list(both) for name, both in arm.usages().items()}}
    except RunspecError:
        return {}
