"""Retry rounds: the nodes of an array job start each attempt together, although the service retries each separately.

One attempt of all nodes is a round. Its outcome is decided once, by a conditional write that all nodes follow: all
have succeeded, all start another attempt, or the job has failed. So a node whose machine is reclaimed takes the
others along into the next round, which begins with a new rendezvous, and no node exits for good while another has to
continue.
"""

import json
import math
import time
from typing import NamedTuple, Optional

from runspec_agent.base import limits
from runspec_agent.base.job_env import LOST, STOPPED, Failure
from runspec_agent.base.process import STOPS, Pace, Signals
from runspec_agent.retry.exit_barrier import ExitBarrier
from runspec_agent.store.base import Bucket

LOOK_S = 5.0  # at most between two reads of the outcome
AGAIN = LOST
TOO_LONG = 124  # the exit code of timeout(1)
VERDICT = "verdict"
LATE = "node {} took longer than its timeout"
LAST = "last"  # the record of a node that gets no other attempt, whatever the outcome


class RoundOutcome(NamedTuple):
    """The exit code of every node of a round: 0, AGAIN, or the code that the job has failed with.

    *timed_out*: a node has reached `timeout`, which is the same for all of them.
    """

    code: int
    why: str
    timed_out: bool = False


class RetryRound(ExitBarrier):
    """One node's part in one round."""

    def __init__(self, bucket: Bucket, prefix: str, rank: int, nodes: int, number: int) -> None:
        super().__init__(bucket, "{}{}/".format(prefix, number), rank, nodes)
        self.number = number
        self.verdict: Optional[RoundOutcome] = None
        self.timed_out = False  # whether this node has reached its timeout
        self.deadline = (
            math.inf
        )  # by time.monotonic(): a node that is told to end later gets no other attempt
        self._wish: Optional[RoundOutcome] = None
        self._next_beat = 0.0

    def run(self) -> None:
        while not self.over.is_set():
            try:
                if self._wish is not None:
                    self.decide(*self._wish)
                now = time.monotonic()
                if now >= self._next_beat:
                    self._next_beat = now + limits.STORE_BEAT_S
                    self.beat()
                self.look()
            except Failure:  # the next pass, or the end, reports it
                pass
            self.woken.wait(LOOK_S)
            self.woken.clear()

    def look(self) -> Optional[RoundOutcome]:
        """Return the outcome, or None."""
        if self.verdict is None:
            content = self.bucket.get(self.prefix + VERDICT)
            self.verdict = (
                None if content is None else RoundOutcome(*json.loads(content.decode("ascii")))
            )
        return self.verdict

    def decide(self, code: int, why: str, timed_out: bool = False) -> RoundOutcome:
        """Decide the round with this outcome, unless another node was first, and return the outcome."""
        if self.verdict is None:
            text = json.dumps([code, why, timed_out]).encode("ascii")
            content = self.bucket.claim(self.prefix + VERDICT, text)
            self.verdict = RoundOutcome(*json.loads(content.decode("ascii")))
        return self.verdict

    def propose(self, code: int, why: str, timed_out: bool = False) -> None:
        """Let the thread decide the round soon, for callers that cannot wait for the store."""
        if self._wish is None:
            self._wish = RoundOutcome(code, why, timed_out)
            self.woken.set()

    def stopped(self) -> RoundOutcome:
        """Return the outcome of a round in which this node was told to end.

        The others do not wait for a node that has timed out: services do not retry it.
        """
        if time.monotonic() < self.deadline:
            return RoundOutcome(AGAIN, "node {} was told to end".format(self.rank))
        return RoundOutcome(TOO_LONG, LATE.format(self.rank), True)

    def blame(self, signals: Signals) -> Optional[RoundOutcome]:
        """Return the outcome that explains a failure of this node; None if the failure is the node's own.

        A program may fail because another node was lost. So a failure counts once all nodes have sent a later
        heartbeat.
        """
        began, pace = time.monotonic(), Pace(0.25, LOOK_S)
        self._answered = began
        self.check()
        known = self._answered
        while self.look() is None:
            silent = [
                rank
                for rank in self._others_ranks()
                if rank not in self._codes and 0.0 < self._last_seen(rank) <= known
            ]
            if not silent:
                return None
            lost = self.lost_node(began, limits.STORE_MEET_S)
            if lost is not None:
                return self.decide(AGAIN, "node {} has sent no heartbeat".format(lost))
            if any(number in STOPS for number in signals.wait(pace.pause_s())):
                return self.decide(*self.stopped())
            self.check()
        return self.verdict

    def end(self, code: int, signals: Signals, wait: bool = True, is_own: bool = False) -> int:
        """Return the exit code of this node: its *code* or, if that is 0, the outcome of the round.

        *is_own*: a *code* of 143 is the program's own, after its last attempt.
        """
        try:
            if code == 0:
                self.bucket.put("{}ended-{}".format(self.prefix, self.rank), b"0")
                return self._all(signals)
            again = code == AGAIN or (code == STOPPED and not is_own)
            if code == STOPPED and signals.stopping:
                verdict = self.decide(*self.stopped())
            else:
                why = LATE if self.timed_out else "node {{}} exited with {}".format(code)
                verdict = self.decide(
                    AGAIN if again else code, why.format(self.rank), self.timed_out
                )
            return AGAIN if verdict.code == AGAIN and not again else code
        finally:
            self.over.set()
            self.woken.set()

    def _all(self, signals: Signals) -> int:
        """Wait until all nodes have ended, or the round is decided otherwise."""
        began, pace = time.monotonic(), Pace(0.25, LOOK_S)
        self._answered = began
        while self.look() is None:
            self.check()
            lost = self.lost_node(began, limits.STORE_MEET_S)
            if len(self._codes) == self.nodes:
                self.decide(0, "all nodes have succeeded")
            elif lost is not None:
                self.decide(AGAIN, "node {} has sent no heartbeat".format(lost))
            elif any(number in STOPS for number in signals.wait(pace.pause_s())):
                self.decide(*self.stopped())
                return STOPPED
        assert self.verdict is not None, "BUG: no outcome"
        return self.verdict.code


def join(
    bucket: Bucket, prefix: str, rank: int, nodes: int, attempt: int, last: bool = False
) -> RetryRound:
    """Return the round of *attempt* of this node. If it has an outcome already, the node has nothing to do.

    *last*: no other attempt of this node will follow, so the others need not wait for one.
    """
    number = 1
    while True:
        joined = RetryRound(bucket, prefix, rank, nodes, number)
        verdict = joined.look()
        if verdict is None:
            seat_key = "{}seat-{}".format(joined.prefix, rank)
            if bucket.claim(seat_key, str(attempt).encode()) == str(attempt).encode():
                if last:
                    bucket.put(joined.prefix + LAST, str(rank).encode())
                return joined
            verdict = joined.decide(AGAIN, "the machine of node {} was reclaimed".format(rank))
        if verdict.code != AGAIN:
            return joined
        gone = bucket.get(joined.prefix + LAST)
        if gone is not None:
            joined.verdict = RoundOutcome(1, "node {} has no attempts left".format(gone.decode()))
            return joined
        number += 1
