"""Measure what membership changes of an elastic job cost: seconds without a step, and steps that were repeated.

A program reports its progress by a line for each step, with its number from 1, at the end of the file
`RUNSPEC_PROGRESS`. Without these lines, the seconds are those in which no program ran. What is unknown is None.
"""

import json
import os
import time
from typing import Any, Dict, NamedTuple, Optional, Tuple

from runspec_agent.base import files
from runspec_agent.base.job_env import Failure
from runspec_agent.elastic import step_log
from runspec_agent.elastic.leader_view import NODES, name_of
from runspec_agent.elastic.policy import LATE, LEAVING, LEFT, Node
from runspec_agent.elastic.protocol import View
from runspec_agent.elastic.runtime import Turn
from runspec_agent.store.base import Bucket

CHANGES, PROGRESS = "changes/{:07}", "progress"
EVERY_S = 10.0  # seconds between two records of the progress, for the case that all nodes are lost


class Mark(NamedTuple):
    """The progress of a program: its last step, and when it was done in Unix time.

    *since* is the generation that did the step. *generation* is the one whose progress this is, as far as it is
    known; with *over*, that generation did no later step.
    """

    step: Optional[int]
    at: float
    generation: int = 0
    over: bool = False
    since: Optional[int] = None


class Account:
    """The cost of each membership change, computed by every node and written by the first node of a generation.

    No program waits for the store: what has to be written at its start is written with the first `look`.
    """

    def __init__(self, bucket: Bucket, prefix: str, folder: str) -> None:
        self.bucket, self.prefix, self.folder = bucket, prefix, folder
        self._last: Optional[Mark] = (
            None  # the progress before this generation, as far as this node knows it
        )
        self._turn: Optional[Turn] = None
        self._went: Tuple[Tuple[Node, str], ...] = ()
        self._open: Optional[Dict[str, Any]] = (
            None  # what is known of a change that is not complete
        )
        self._told = False  # whether this node has begun to write the change
        self._exact = True  # whether `_last` is where the generation before ended
        self._owed: Dict[str, Dict[str, Any]] = {}  # records that are not in the store yet
        self._noted = 0.0

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "progress")

    def begin(self, turn: Turn, view: View) -> None:
        """Start measuring; called before the program of a generation starts."""
        self._turn, self._noted, self._told = turn, time.monotonic(), False
        files.write(self.path, b"", 0o666)
        if turn.rank > 0:
            return
        self._went = view.went
        self._open = {
            "generation": turn.generation,
            "why": view.why,
            "before": view.stayed + len(view.went),
            "nodes": len(turn.hosts),
            "hosts": turn.hosts,
            "came": [_who(node) for node in view.members[view.stayed :]],
            "at": round(time.time(), 3),
            "gap_s": None,
            "lost_steps": None,
            "first_step": None,
            "since": None,
            "exact": True,
        }

    def look(self) -> None:
        """Update the progress; called often, as the first step of a generation completes the change before it."""
        if self._turn is None or self._turn.rank > 0:
            return
        self._tell()
        if self._open is not None:
            first = step_log.first(self.path)
            if first is not None:
                self._close(first, time.time())
        if time.monotonic() - self._noted > EVERY_S:
            self._noted = time.monotonic()
            if self._open is None:
                self._note(over=False)
            self._send()

    def end(self) -> None:
        """Stop measuring; called when the program of a generation has ended."""
        if self._turn is not None:
            self._tell()
            first = step_log.first(self.path) if self._open is not None else None
            if first is not None:
                self._close(first, time.time())
            self._note(over=True)
        self._turn = self._open = None

    def _tell(self) -> None:
        """Write, once, which nodes are members now, and from which generation the progress continues."""
        found, turn = self._open, self._turn
        if found is None or turn is None or self._told:
            return
        self._told = True
        self._last = self._before(turn.generation)
        mark = self._last
        if mark is not None:
            self._exact = mark.over and mark.generation == turn.generation - 1
            found["exact"], found["since"] = self._exact, mark.since
            if mark.step is None:  # perhaps no program of this job reports steps
                found["gap_s"] = _between(mark.at, found["at"])
        went = [(dict(_who(node), why=self._why(node, how)), how) for node, how in self._went]
        found["left"] = [who for who, how in went if how == LEFT]
        found["lost"] = [who for who, how in went if how != LEFT]
        self._put(CHANGES.format(turn.generation), found)

    def _before(self, generation: int) -> Optional[Mark]:
        """Return the progress before *generation*, from the store if this node does not know it."""
        own = self._last
        if own is not None and own.step is not None and own.generation == generation - 1:
            return own
        marks = [mark for mark in (own, self._kept()) if mark is not None]
        return max(marks, key=lambda m: (m.step is not None, m.generation, m.at), default=None)

    def _why(self, node: Node, how: str) -> str:
        if how != LEFT:
            return "it did not stop in time" if how == LATE else "it was silent"
        try:
            found = self.bucket.get("{}{}{},{}".format(self.prefix, NODES, name_of(node), LEAVING))
            return (found or b"").decode("utf-8", "replace")
        except Failure:  # the reason is only for people, so the change is recorded without it
            return ""

    def _close(self, first: int, now: float) -> None:
        found, last = self._open, self._last
        assert found is not None, "BUG: no change is being measured"
        self._open = None
        found["first_step"] = first
        if last is not None:
            found["gap_s"] = _between(last.at, now)
            found["lost_steps"] = None if last.step is None else max(0, last.step + 1 - first)
        self._put(CHANGES.format(found["generation"]), found)

    def _note(self, over: bool) -> None:
        """Record the progress. If the first node knows that no step was done, it is that of the generation before."""
        turn, found = self._turn, self._at()
        assert turn is not None, "BUG: no generation is running"
        if found.step is not None or self._last is None or self._last.step is None:
            since = None if found.step is None else turn.generation
            self._last = found._replace(generation=turn.generation, over=over, since=since)
        elif turn.rank == 0 and over and self._exact:
            self._last = self._last._replace(generation=turn.generation)
        if turn.rank == 0:
            self._put(PROGRESS, self._last._asdict())

    def _at(self) -> Mark:
        found = step_log.last(self.path)
        return Mark(None, time.time()) if found is None else Mark(found.number, found.at)

    def _kept(self) -> Optional[Mark]:
        try:
            found = self.bucket.get(self.prefix + PROGRESS)
            return None if found is None else Mark(**json.loads(found.decode("ascii")))
        except (Failure, ValueError, TypeError):  # without it, the costs of one change are unknown
            return None

    def _put(self, key: str, record: Dict[str, Any]) -> None:
        self._owed[key] = record
        self._send()

    def _send(self) -> None:
        try:
            for key in list(self._owed):
                content = json.dumps(self._owed[key], sort_keys=True).encode("ascii")
                self.bucket.put(self.prefix + key, content)
                del self._owed[key]
        except Failure:  # it is sent later: a job does not fail because of this record
            pass


def _who(node: Node) -> Dict[str, Any]:
    """Return the number and host of *node*, as users know it; its id begins with its number."""
    return {"node": int(node.id.partition("-")[0]), "host": node.host}


def _between(before: float, now: float) -> Optional[float]:
    """Return the seconds from *before* to *now*, or None if the clocks of two machines disagree about the order."""
    return round(now - before, 3) if now >= before else None
