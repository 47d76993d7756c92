"""Read the quotas of a subscription, before a cluster is made."""

from __future__ import annotations

import os
from typing import Any

from runspec_batchai import infrastructure
from runspec_batchai.decision import decide
from runspec_batchai.naming import batchai
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.session import Arm
from runspec_jobs.provider import RunspecError, Spec

# Set while jobs are processes of a machine without mpirun.
NO_MPIRUN = "RUNSPEC_REHEARSAL_NO_MPIRUN"


def survey(spec: Spec, options: BatchAiOptions) -> dict[str, Any]:
    """Return the quotas, and whether mpirun is missing in a rehearsal."""
    lacks = {"mpirun": False} if NO_MPIRUN in os.environ else {}
    return lacks | quotas_of(spec, options)


def quotas_of(spec: Spec, options: BatchAiOptions) -> dict[str, Any]:
    """Return the current values and limits by the names of the usages.

    There are none if the cluster exists already, since its nodes are included in the current values. No step of a
    plan depends on them, so that a plan is the same tomorrow.
    """
    try:
        arm = Arm(options, retries=1)
        name = infrastructure.name(decide(spec, options))
        where = batchai("Clusters_Get", options, {"clusterName": name})
        if arm.look("Clusters", where.params["path"]) is not None:
            return {}
        return {"quotas": {name: list(both) for name, both in arm.usages().items()}}
    except RunspecError:  # a plan works without the service: then quotas are not checked
        return {}
