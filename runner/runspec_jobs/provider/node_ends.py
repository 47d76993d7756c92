"""Read the end records of a run, by which a success is proven and the exit code of a program is known.

`runspec_agent.retry.end_record` describes them. A service that says "succeeded" knows only the exit code of the
container, which an image's ENTRYPOINT may make up without having run anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from runspec_agent.base.end_causes import (
    AWAY as AWAY,
    FULL,
    KILLED,
    MPI_HINT,
    PEER,
    RECLAIMED,
    RELEASED as RELEASED,
    SETUP,
    STOPPED,
    TIMEOUT,
    UNSAVED,
    exited as exited,
)
from runspec_agent.base.light_typing import NamedTuple
from runspec_agent.base.program_hooks import FAILED
from runspec_jobs.regex import regex

SIGNED = "signed"  # the name of the record of a job with signed URLs, which has the code and the cause as content
# Python reads no number of thousands of digits.
NAME = regex(r"(\d{1,9})/(\d{1,9})/(\d{1,9})-(\d{1,9})-([a-z]+)", re.ASCII)
SETUP_NAME = regex(r"(\d{1,9})/(\d{1,9})/(\d{1,9})-setup-(\d{1,9})", re.ASCII)
CONTENT = regex(rb"(\d{1,9}) (\d{1,9}) ([a-z]+)\s*")
OF_PEER = "another node of its task ended it"
CURE = 'let the ENTRYPOINT of the image end with exec "$@", or use an image without one'


class NodeEnd(NamedTuple):
    """How one attempt of a node has ended, with the exit code of its program or, if none ran, of the agent."""

    code: int
    cause: str
    setup_s: int | None = None  # how long its setup took

    @property
    def told(self) -> bool:
        """Whether something else than the program or its agent ended the attempt."""
        return self.cause in (STOPPED, RECLAIMED, RELEASED, PEER)

    @property
    def preempted(self) -> bool:
        return self.cause == RECLAIMED

    def reason(self, record: Mapping[str, Any]) -> str:
        """Return why the attempt ended, or an empty string if it succeeded; *record* is that of the run."""
        if self.cause == TIMEOUT:
            hint = MPI_HINT if record.get("launch") == "mpi" else ""
            return f"timeout: not done after {record.get('timeout_s')} s{hint}"
        reasons = {
            STOPPED: "it was told to end",
            RELEASED: AWAY,
            RECLAIMED: "the machine was reclaimed (after a notice)",
            PEER: OF_PEER,
            UNSAVED: "the program succeeded, but not all of its outputs were saved: see the log",
            FULL: "the program succeeded, but its outputs were not saved, since the store is full",
            SETUP: FAILED.format(self.code),
            KILLED: f"exited with code {self.code}: the agent was killed by signal {self.code - 128}",
        }
        return reasons.get(self.cause, exited(self.code) if self.code else "")


Key = tuple[int, int, int]
"""The task, the rank and the attempt."""


class NodeEnds:
    """The end records of one run.

    *names* lists the names below `ends/` in the run's part of the store, and *read* returns the contents of some of
    them, for a job with signed URLs.
    """

    def __init__(
        self,
        record: Mapping[str, Any],
        names: Callable[[], Iterable[str]],
        read: Callable[[Sequence[str]], Sequence[bytes | None]],
    ) -> None:
        self.record = record
        self._names, self._read = names, read
        self._known: dict[tuple[int, int], dict[int, NodeEnd]] = {}  # by task and rank, by attempt
        self._timeouts: dict[tuple[int, int], NodeEnd] = {}  # by task and attempt, of any node
        self._asked: set[Key] = set()

    @property
    def written(self) -> bool:
        """Whether the jobs of this run write records; those of older versions do not."""
        return bool(self.record.get("ends"))

    @property
    def shared(self) -> bool:
        """Whether the attempts of a task share one record, as jobs with signed URLs do."""
        return bool(self.record.get("ends") == SIGNED)

    def look(self, keys: Collection[Key]) -> None:
        """Read the records of attempts that have ended: with one list, unless all were looked for before."""
        # A record is written before its attempt ends, so one that was missing once does not appear later.
        wanted = set(keys) - self._asked
        if not self.written or not wanted:
            return
        if self.shared:
            self._look_one_by_one({task for task, _, _ in wanted})
        else:
            for (task, rank, attempt), end in read_names(self._names()).items():
                self._known.setdefault((task, rank), {})[attempt] = end
                if end.cause == TIMEOUT:
                    self._timeouts[task, attempt] = end
        self._asked |= wanted

    def _look_one_by_one(self, tasks: Collection[int]) -> None:
        # One record for each task, whose name is known, so no list of the store is needed.
        listed = sorted(tasks)
        for task, content in zip(
            listed, self._read([f"{n}/{SIGNED}" for n in listed]), strict=True
        ):
            match = CONTENT.fullmatch(content or b"")
            if match:
                attempt, code, cause = int(match[1]), int(match[2]), match[3].decode()
                self._known[task, 0] = {attempt: NodeEnd(code, cause)}

    def newest(self, task: int, rank: int) -> NodeEnd | None:
        """Return how the last attempt of a node has ended of those whose agents have recorded that.

        For services that do not number attempts as the agent does.
        """
        known = self._known.get((task, rank))
        return self.of((task, rank, max(known))) if known else None

    def of(self, key: Key) -> NodeEnd | None:
        """Return how an attempt that was looked for has ended, if its agent has recorded that.

        All nodes of a task have the same timeout. The one that reaches it first ends the others, or the service does.
        """
        task, _, attempt = key
        end = self._known.get(key[:2], {}).get(attempt)
        if end is not None and end.cause in (PEER, STOPPED):
            timeout = self._timeouts.get((task, attempt), end)
            return timeout._replace(setup_s=end.setup_s)
        return end


def read_names(names: Iterable[str]) -> dict[Key, NodeEnd]:
    """Return the ends that *names* of records say.

    >>> read_names(["4/2/1-75-program", "4/2/1-setup-12", "4/2/batch"])
    {(4, 1, 2): NodeEnd(code=75, cause='program', setup_s=12)}
    """
    listed, setups, ends = list(names), dict[Key, int](), dict[Key, NodeEnd]()
    for match in filter(None, map(SETUP_NAME.fullmatch, listed)):
        task, attempt, rank, setup_s = map(int, match.groups())
        setups[task, rank, attempt] = setup_s
    for match in filter(None, map(NAME.fullmatch, listed)):
        task, attempt, rank, code = map(int, match.groups()[:4])
        key = (task, rank, attempt)
        ends[key] = NodeEnd(code, match[5], setups.get(key))
    return ends


def unproven(service: str) -> str:
    """Return why a node counts as failed that *service* says has succeeded, if its agent has recorded no end."""
    return (
        f"{service} reports success, but the agent did not run to its end: the image's ENTRYPOINT did not pass the "
        f"command on, or did not wait for it: {CURE}"
    )


def unrecorded(reason: str) -> str:
    """Return *reason*, an exit code that the service reports of a node whose agent has recorded no end."""
    return (
        f"{reason}; the agent recorded no end: it was killed, the store was full, or its image did not start it, which "
        "may lack /bin/sh, be for another processor, or have an ENTRYPOINT that does not run the command"
    )


def overdue(service: str, timeout_s: int | None, limit_s: int | None = None) -> str:
    """Return why an attempt failed that *service* ended at its own time limit, after the agent had not ended it.

    *limit_s* is that limit, where the service tells it.

    >>> overdue("AWS Batch", 20, 160)
    'timeout: not done after 20 s; AWS Batch ended it at its own limit of 160 s, since the agent had not'
    """
    if timeout_s is None:
        return f"timeout: {service} ended it at its own limit: set timeout, which may be longer"
    suffix = f" of {limit_s} s" if limit_s else ""
    after = f"timeout: not done after {timeout_s} s"
    return f"{after}; {service} ended it at its own limit{suffix}, since the agent had not"


def contradicted(service: str, end: NodeEnd, record: Mapping[str, Any]) -> str:
    """Return why a node failed that *service* says has succeeded, if its record says otherwise."""
    return f"{end.reason(record)} ({service} reports success: the image's ENTRYPOINT hides the exit code)"
