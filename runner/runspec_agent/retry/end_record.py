"""The record of how a node has ended, which proves that the agent, and so the program, came to its end.

A service knows only the exit code of the container, which an image's ENTRYPOINT may make up. The record is
`ends/TASK/ATTEMPT/RANK-CODE-CAUSE` in the store of the run. Its name says all that a client needs, so that one list
reads the ends of a whole array. CODE is the exit code of the program or of the agent, before it is replaced by one that
the service acts upon. Agents write records if the run's record has `ends`. How long a setup took is in a name of its
own, `ends/TASK/ATTEMPT/RANK-setup-SECONDS`: versions up to 0.3.0 would not know a longer name of an end.
"""

import contextlib
import json
import os
import time
from typing import NamedTuple, Optional

from runspec_agent.base.job_env import Failure, NoSpace
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
    return "{}{}-{}".format(_begin(at, identity), end.code, end.cause)


def setup_key(at: str, identity: TaskIdentity, setup_s: int) -> str:
    """Return the key of the empty object that says how long a setup took.

    >>> setup_key("runs/r/", TaskIdentity("j", 4, 1, 2), 12)
    'runs/r/ends/4/2/1-setup-12'
    """
    return "{}setup-{}".format(_begin(at, identity), setup_s)


def _begin(at: str, identity: TaskIdentity) -> str:
    return "{}ends/{}/{}/{}-".format(at, identity.task, identity.attempt, identity.rank)


def find(bucket: Bucket, at: str, identity: TaskIdentity) -> Optional[End]:
    """Return the end that is recorded for this node and attempt, or None."""
    prefix = _begin(at, identity)
    words = dict(entry.key[len(prefix) :].split("-") for entry in bucket.listing(prefix))
    setup_s = words.pop("setup", None)
    for code, cause in words.items():
        return End(int(code), cause, setup_s=None if setup_s is None else int(setup_s))
    return None


def write(bucket: Bucket, at: str, identity: TaskIdentity, end: End, node: str) -> None:
    """Write the record; *node* is the service's name of the node. Raise Failure if the store refuses."""
    if end.setup_s is not None:
        with contextlib.suppress(Failure):  # the time is lost, and nothing depends on it
            bucket.put(setup_key(at, identity, end.setup_s), b"")
    note = {"why": end.why, "node": node, "ended_s": round(time.time(), 3)}
    _write_locally(key("", identity, end)[len("ends/") :], os.environ.get("RUNSPEC_END_FILE"))
    try:
        bucket.put(key(at, identity, end), json.dumps(note, sort_keys=True).encode("ascii"))
    except NoSpace:  # the name says enough
        bucket.put(key(at, identity, end), b"")


def _write_locally(name: str, path: Optional[str]) -> None:
    """Add *name* to the file at *path*, for a service that keeps such a file of each container with its exit code."""
    if path:
        with contextlib.suppress(OSError), open(path, "a", encoding="ascii") as stream:
            stream.write(name + "\n")
