"""The record of how a node has ended, which proves that the agent, and so the program, came to its end.

A service knows only the exit code of the container, which an image's ENTRYPOINT may make up. The record is
`ends/TASK/ATTEMPT/RANK-CODE-CAUSE` in the store of the run, followed by `-SECONDS` if a setup has ended. Its name says
all that a client needs, so that one list reads the ends of a whole array. CODE is the exit code of the program or of
the agent, before it is replaced by one that the service acts upon. Agents write records if the run's record has `ends`.
"""

import json
import time
from typing import NamedTuple, Optional

from runspec_agent.base.job_env import NoSpace
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.base import Bucket


class End(NamedTuple):
    """How a node has ended, with its own exit code; *why* is the agent's message, if there is one.

    *setup_s* is how long its setup took, or None if it has none, or none that has ended.
    """

    code: int
    cause: str
    why: Optional[str] = None
    setup_s: Optional[int] = None


def key(at: str, identity: TaskIdentity, end: End) -> str:
    """Return the key of a record below *at*, the prefix of the run.

    >>> key("runs/r/", TaskIdentity("j", 4, 1, 2), End(75, "program"))
    'runs/r/ends/4/2/1-75-program'
    """
    words = [str(identity.rank), str(end.code), end.cause]
    if end.setup_s is not None:
        words.append(str(end.setup_s))
    return "{}ends/{}/{}/{}".format(at, identity.task, identity.attempt, "-".join(words))


def find(bucket: Bucket, at: str, identity: TaskIdentity) -> Optional[End]:
    """Return the end that is recorded for this node and attempt, or None."""
    prefix = "{}ends/{}/{}/{}-".format(at, identity.task, identity.attempt, identity.rank)
    for entry in bucket.listing(prefix):
        code, cause, *setup_s = entry.key[len(prefix) :].split("-")
        return End(int(code), cause, setup_s=int(setup_s[0]) if setup_s else None)
    return None


def write(bucket: Bucket, at: str, identity: TaskIdentity, end: End, node: str) -> None:
    """Write the record; *node* is the service's name of the node. Raise Failure if the store refuses."""
    note = {"why": end.why, "node": node, "ended_s": round(time.time(), 3)}
    try:
        bucket.put(key(at, identity, end), json.dumps(note, sort_keys=True).encode("ascii"))
    except NoSpace:  # the name says enough
        bucket.put(key(at, identity, end), b"")
