"""A node's part in the rendezvous: it joins, reports its exit code, and watches the other nodes."""

import os
import time
from typing import Dict, Optional, Tuple

from runspec_agent.base import process
from runspec_agent.base.job_env import LOST, STOPPED, Failure, JobEnv
from runspec_agent.base.process import Signals
from runspec_agent.rendezvous import hostfile
from runspec_agent.rendezvous.shared_directory import (
    POLL_S,
    Node,
    Rendezvous,
    complete,
    missing,
    stack,
)

SLACK_S = 1.0


class Participant:
    """This node in its job; the only node of a job needs no shared directory."""

    def __init__(self, job_env: JobEnv, signals: Signals) -> None:
        self.words = job_env
        self.signals = signals
        self.meeting: Optional[Rendezvous] = Rendezvous(job_env) if job_env.nodes > 1 else None
        self.nodes: Tuple[Node, ...] = ()
        self._stopping: Optional[int] = None
        self._grace_ends = 0.0
        self._rank_failed: Optional[int] = None

    def meet(self, port: int = 0, start: str = "") -> None:
        """Wait for all nodes. Raise Failure if some do not join in time, or after a signal to stop."""
        token = os.urandom(16).hex() if self.words.rank == 0 else ""
        if self.meeting is None:
            self.nodes = (Node(0, self.words.host, stack(), token, port, start),)
        else:
            self.meeting.join(token, port, start)
            self.nodes = self._wait(self.meeting)
        if self.words.hostfile is not None:
            hostfile.write(self.words.hostfile, self.nodes, self.words.slots)

    def _wait(self, meeting: Rendezvous) -> Tuple[Node, ...]:
        waited_s = 0.0
        while True:
            seats = meeting.seats()
            nodes = complete(meeting, seats)
            if nodes is not None:
                return nodes
            failed = self._failed(meeting)
            if failed is not None:
                raise failed
            if waited_s >= self.words.meet_timeout_s:
                raise missing(meeting, seats)
            if any(number in process.STOPS for number in self.signals.wait(POLL_S)):
                raise Failure("asked to stop before all nodes had joined", STOPPED)
            meeting.beat()
            waited_s += POLL_S

    def _failed(self, meeting: Rendezvous) -> Optional[Failure]:
        for rank in range(self.words.nodes):
            code = meeting.ended(rank) if rank != self.words.rank else None
            if code:
                return Failure(
                    "node {} exited with code {} before all nodes had joined".format(rank, code),
                    code,
                )
        return None

    def env(self) -> Dict[str, str]:
        leader = self.words.leader or self.nodes[0].host
        return dict(os.environ, RUNSPEC_LEADER=leader)

    def end(self, code: int) -> None:
        if self.meeting is not None:
            self.meeting.end(code)

    def tell_to_stop(self, number: int) -> None:
        if self.meeting is not None:
            self.meeting.tell_to_stop(number)
        self._stop(number)

    def tell_of_failure(self, code: Optional[int]) -> None:
        """Tell rank 0 that a rank has exited with *code*; nothing is written for None."""
        if code is not None and self._rank_failed is None:
            self._rank_failed = code
            if self.meeting is not None:
                self.meeting.tell_of_failure(code)

    def failed(self) -> Optional[int]:
        if self._rank_failed is None and self.meeting is not None:
            self._rank_failed = self.meeting.failed()
        return self._rank_failed

    def stopping(self) -> Optional[int]:
        """Return the signal with which this node, or another, was asked to stop."""
        if self._stopping is None and self.meeting is not None:
            self._stop(self.meeting.stopping())
        return self._stopping

    def _stop(self, number: Optional[int]) -> None:
        if self._stopping is None and number is not None:
            self._stopping = number
            self._grace_ends = time.monotonic() + self.words.grace_s

    def grace_is_over(self) -> bool:
        """Return whether rank 0 should have ended the job by now, since it has the same grace period."""
        return self._stopping is not None and time.monotonic() > self._grace_ends + SLACK_S

    def all_others_ended(self) -> bool:
        """Return whether every other node has recorded its exit code."""
        meeting, others = self.meeting, range(self.words.nodes)
        return meeting is None or all(
            meeting.ended(rank) is not None for rank in others if rank != self.words.rank
        )

    def watch(self) -> Optional[Failure]:
        """Send a heartbeat, and return the failure of another node: it is lost, or has exited with an error."""
        if self.meeting is None:
            return None
        self.meeting.beat()
        for node in self.nodes:
            if node.rank != self.words.rank:
                code = self.meeting.ended(node.rank)
                if code:
                    return Failure(
                        "node {} ({}) exited with code {}".format(node.rank, node.host, code), code
                    )
                if code is None and self.meeting.gone(node.rank):
                    return gone(node, self.words.lease_s)
        return None


def gone(node: Node, lease_s: float) -> Failure:
    text = "node {} ({}) has sent no heartbeat for {:g} s: the node or the shared directory is lost"
    return Failure(text.format(node.rank, node.host, lease_s), LOST)
