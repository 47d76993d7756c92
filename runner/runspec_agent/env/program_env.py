"""The RUNSPEC_* variables that a program finds with every provider: docs/inside.md."""

import os
from typing import Any, Dict, Mapping

from runspec_agent.base import limits
from runspec_agent.base.task_identity import TaskIdentity, values, variable
from runspec_agent.env import address


def fill(
    env: Dict[str, str], record: Mapping[str, Any], identity: TaskIdentity, folder: str
) -> None:
    """Set the variables in *env* unless the service has set them. *folder* is this node's own."""
    for name, value in values(record["sweep"], identity.task).items():
        env[variable("SWEEP", name)] = value
    env.update(
        RUNSPEC_TASK=str(identity.task),
        RUNSPEC_RANK=str(identity.rank),
        RUNSPEC_ATTEMPT=str(identity.attempt),
        RUNSPEC_NODES=str(record["nodes"]),
        RUNSPEC_SLOTS=str(record["slots"]),
        RUNSPEC_LAUNCH=record["launch"],
        RUNSPEC_HOSTFILE=os.path.join(folder, "hostfile"),
    )
    if record.get("global_batch"):
        env["RUNSPEC_GLOBAL_BATCH"] = str(record["global_batch"])
    env.setdefault("RUNSPEC_GRACE_S", str(limits.SERVICE_GRACE_S))
    env.setdefault("RUNSPEC_MEET_TIMEOUT_S", "{:g}".format(limits.STORE_MEET_S))
    env.setdefault("RUNSPEC_LEASE_S", "{:g}".format(limits.STORE_LEASE_S))
    env["RUNSPEC_HOST"] = address.own(env)
