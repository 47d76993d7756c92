"""The record of how a node has ended, which proves that the agent, and so the program, came to its end.

A service knows only the exit code of the container, which an image's ENTRYPOINT may make up. The record is
`ends/TASK/ATTEMPT/RANK-CODE-CAUSE` in the store of the run. Its name says all that a client needs, so that one list
reads the ends of a whole array. CODE is the exit code of the program or of the agent, before it is replaced by one that
the service acts upon. Agents write records if the run's record has `ends`.
"""

import json
import time
from typing import NamedTuple, Optional

from runspec_agent.base.job_env import NoSpace
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.base import Bucket

# What ended the node, in one word of the record's name.
PROGRAM = "program"  # the program itself
TIMEOUT = "timeout"  # the agent, since the attempt took longer than `timeout`
STOPPED = "stopped"  # a signal: the run was cancelled, or the service ends the job
RECLAIMED = "reclaimed"  # a notice that the machine will be reclaimed
PEER = "peer"  # another node of the task
UNSAVED = "unsaved"  # the program succeeded, but its outputs could not be saved
FULL = "full"  # the same, because the store is full
AGENT = "agent"  # the agent could not prepare or continue the job
KILLED = "killed"  # a signal ended the agent, as its parent saw
OF_PROGRAM = (PROGRAM, TIMEOUT, UNSAVED, FULL)  # with a failure that counts


# After the reason of a timeout. https://mpi4py.readthedocs.io/en/stable/mpi4py.run.html
MPI_HINT = (
    "; start Python by `python -m mpi4py`, or an exception on one rank leaves the others waiting"
)


class End(NamedTuple):
    """How a node has ended, with its own exit code; *why* is the agent's message, if there is one."""

    code: int
    cause: str
    why: Optional[str] = None


def key(at: str, place: TaskIdentity, end: End) -> str:
    """Return the key of a record below *at*, the prefix of the run.

    >>> key("runs/r/", TaskIdentity("j", 4, 1, 2), End(75, PROGRAM))
    'runs/r/ends/4/2/1-75-program'
    """
    return "{}ends/{}/{}/{}-{}-{}".format(
        at, place.task, place.attempt, place.rank, end.code, end.cause
    )


def find(bucket: Bucket, at: str, place: TaskIdentity) -> Optional[End]:
    """Return the end that is recorded for this node and attempt, or None."""
    prefix = "{}ends/{}/{}/{}-".format(at, place.task, place.attempt, place.rank)
    for found in bucket.listing(prefix):
        code, _, cause = found.key[len(prefix) :].partition("-")
        return End(int(code), cause)
    return None


def write(bucket: Bucket, at: str, place: TaskIdentity, end: End, node: str) -> None:
    """Write the record; *node* is the service's name of the node. Raise Failure if the store refuses."""
    found = {"why": end.why, "node": node, "ended_s": round(time.time(), 3)}
    try:
        bucket.put(key(at, place, end), json.dumps(found, sort_keys=True).encode("ascii"))
    except NoSpace:  # the name says enough
        bucket.put(key(at, place, end), b"")
