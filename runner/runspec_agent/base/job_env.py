"""The settings of a job, which the provider passes to its nodes in RUNSPEC_* variables."""

import os
import socket
from typing import Mapping, NamedTuple, Optional, Tuple, Type, TypeVar

from runspec_agent.base import limits
from runspec_agent.base.failure import LOST, STOPPED, USAGE, Failure, NoSpace

__all__ = [
    "IS_MAIN",
    "LAUNCHES",
    "LOST",
    "MAIN",
    "NODE_ID",
    "NODE_NAMES",
    "STOPPED",
    "TEAM_WORDS",
    "USAGE",
    "Failure",
    "JobEnv",
    "NoSpace",
    "current",
    "read",
]

LAUNCHES = ("none", "mpi", "horovod", "torchrun", "srun")
# Variables for services that start the nodes of a task together, each with the variable of Azure Batch that it stands
# for:
# https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables
NODE_NAMES = "RUNSPEC_NODE_NAMES"  # addresses separated by commas: AZ_BATCH_HOST_LIST
MAIN = "RUNSPEC_MAIN"  # address:port of the main node: AZ_BATCH_MASTER_NODE
IS_MAIN = "RUNSPEC_IS_MAIN"  # "true" or "false": AZ_BATCH_IS_CURRENT_NODE_MASTER
NODE_ID = "RUNSPEC_NODE_ID"  # id of this node: AZ_BATCH_NODE_ID
TEAM_WORDS = (NODE_NAMES, MAIN, IS_MAIN, NODE_ID)

Number = TypeVar("Number", int, float)


class JobEnv(NamedTuple):
    run: str
    attempt: (
        int  # from 1; a number is used once, since the records of an attempt stay where they are
    )
    rank: int
    nodes: int
    host: str  # unique among the nodes
    leader: Optional[str]  # the host of rank 0; None: found in the rendezvous
    hostfile: Optional[str]
    slots: int  # processes per node
    launch: str
    meet: Optional[str]  # a directory that all nodes share
    meet_timeout_s: float
    lease_s: float  # after which a node whose heartbeat has not changed is lost
    grace_s: float  # between SIGTERM and SIGKILL


def read(env: Mapping[str, str]) -> JobEnv:
    """Return the settings in *env*. Raise Failure for an invalid value, and for several nodes without a rendezvous."""
    job_env = JobEnv(
        run=env.get("RUNSPEC_RUN", ""),
        attempt=_number(env, "ATTEMPT", 1, 1, int),
        rank=_number(env, "RANK", 0, 0, int),
        nodes=_number(env, "NODES", 1, 1, int),
        host=env.get("RUNSPEC_HOST") or socket.gethostname(),
        leader=env.get("RUNSPEC_LEADER") or None,
        hostfile=env.get("RUNSPEC_HOSTFILE") or None,
        slots=_number(env, "SLOTS", 1, 1, int),
        launch=_choice(env, "LAUNCH", LAUNCHES),
        meet=env.get("RUNSPEC_MEET") or None,
        meet_timeout_s=_number(env, "MEET_TIMEOUT_S", limits.MEET_S, 0.0, float),
        lease_s=_number(env, "LEASE_S", limits.LEASE_S, 0.1, float),
        grace_s=_number(env, "GRACE_S", limits.GRACE_S, 0.0, float),
    )
    _check(job_env)
    return job_env


def current() -> JobEnv:
    return read(os.environ)


def _check(job_env: JobEnv) -> None:
    if job_env.rank >= job_env.nodes:
        raise Failure(
            "RUNSPEC_RANK is {}, but RUNSPEC_NODES is {}".format(job_env.rank, job_env.nodes)
        )
    if any(letter.isspace() for letter in job_env.host):
        raise Failure("RUNSPEC_HOST: '{}' has white space in it".format(job_env.host))
    if job_env.nodes > 1 and job_env.launch != "none" and job_env.meet is None:
        raise Failure("a job of several nodes needs RUNSPEC_MEET, a directory that all nodes share")


def _number(
    env: Mapping[str, str], name: str, default: Number, least: Number, kind: Type[Number]
) -> Number:
    text = env.get("RUNSPEC_" + name) or str(default)
    try:
        value = kind(text)
    except ValueError:
        raise Failure("RUNSPEC_{}: '{}' is not a number".format(name, text)) from None
    if not value >= least:
        raise Failure("RUNSPEC_{}: {} is less than {}".format(name, text, least))
    return value


def _choice(env: Mapping[str, str], name: str, choices: Tuple[str, ...]) -> str:
    text = env.get("RUNSPEC_" + name) or choices[0]
    if text not in choices:
        raise Failure("RUNSPEC_{}: '{}' is not one of {}".format(name, text, ", ".join(choices)))
    return text
