"""What changes of an elastic job's members have cost: seconds without a step, and steps that were done twice.

A program says how far it is by a line for each step that it has done, its number from 1, at the end of the file
`RUNSPEC_PROGRESS`. Without that, the seconds are those in which no program ran. What is not known is None.
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
EVERY_S = 10.0  # between two notes of how far it is, for a time when all nodes are lost


class Mark(NamedTuple):
    """How far a program was, and when, in Unix time; *since* is the generation that did the step.

    It is as far as is known of *generation*, and *over* says that nothing was done after it in that one.
    """

    step: Optional[int]
    at: float
    generation: int = 0
    over: bool = False
    since: Optional[int] = None


class Account:
    """Kept by each node, and written down by the first of a generation.

    Nothing waits for the store before a program starts: what is written down then is written with the first look.
    """

    def __init__(self, bucket: Bucket, prefix: str, folder: str) -> None:
        self.bucket, self.prefix, self.folder = bucket, prefix, folder
        self._last: Optional[Mark] = None  # of the generations before, as far as this node knows
        self._turn: Optional[Turn] = None
        self._went: Tuple[Tuple[Node, str], ...] = ()
        self._open: Optional[Dict[str, Any]] = None  # what is known of a change that is not over
        self._told = False  # whether that was begun to be written down
        self._exact = True  # whether `_last` is where the generation before has ended
        self._owed: Dict[str, Dict[str, Any]] = {}  # what the store has not taken yet
        self._noted = 0.0

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "progress")

    def begin(self, turn: Turn, view: View) -> None:
        """Call it before the program of a generation starts."""
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
        """Call it often: the first step of a generation ends the gap before it."""
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
        """Call it when the program of a generation has ended."""
        if self._turn is not None:
            self._tell()
            first = step_log.first(self.path) if self._open is not None else None
            if first is not None:
                self._close(first, time.time())
            self._note(over=True)
        self._turn = self._open = None

    def _tell(self) -> None:
        """Write down, once, who is there now, and whose steps count as those before."""
        found, turn = self._open, self._turn
        if found is None or turn is None or self._told:
            return
        self._told = True
        self._last = self._before(turn.generation)
        mark = self._last
        if mark is not None:
            self._exact = mark.over and mark.generation == turn.generation - 1
            found["exact"], found["since"] = self._exact, mark.since
            if mark.step is None:  # it may be that no program of this job tells its steps
                found["gap_s"] = _between(mark.at, found["at"])
        went = [(dict(_who(node), why=self._why(node, how)), how) for node, how in self._went]
        found["left"] = [who for who, how in went if how == LEFT]
        found["lost"] = [who for who, how in went if how != LEFT]
        self._put(CHANGES.format(turn.generation), found)

    def _before(self, generation: int) -> Optional[Mark]:
        """Return how far the job was: this node may not have been a member, or its program not have told."""
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
        except Failure:
            return ""

    def _close(self, first: int, now: float) -> None:
        found, last = self._open, self._last
        assert found is not None, "BUG: there is no change"
        self._open = None
        found["first_step"] = first
        if last is not None:
            found["gap_s"] = _between(last.at, now)
            found["lost_steps"] = None if last.step is None else max(0, last.step + 1 - first)
        self._put(CHANGES.format(found["generation"]), found)

    def _note(self, over: bool) -> None:
        """Note how far it is. Where the first node knows that no step was done, that is as far as it was before."""
        turn, found = self._turn, self._at()
        assert turn is not None, "BUG: nothing runs"
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
        except (Failure, ValueError, TypeError):
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
        except Failure:  # later: the account of a change is not worth a job
            pass


def _who(node: Node) -> Dict[str, Any]:
    """Return a node as a user knows it; its id begins with its number."""
    return {"node": int(node.id.partition("-")[0]), "host": node.host}


def _between(before: float, now: float) -> Optional[float]:
    """Return the seconds; None where the clocks of two machines do not agree on what came first."""
    return round(now - before, 3) if now >= before else None
