"""The members of a simulated elastic job, with the policy of real jobs, `runspec_agent.elastic.policy`."""

from __future__ import annotations

from collections.abc import Mapping

from runspec_agent.elastic.policy import (
    CALLS,
    GONE,
    READY,
    RUNNING,
    Bounds,
    Node,
    Seen,
    Sight,
    State,
    Timing,
    decide,
)
from runspec_jobs.simulate.fleet import NEVER, Changes, Lost
from runspec_jobs.simulate.progress import Work

SAID: Mapping[str, float] = {READY: 0.0}


class Elastic:
    """An elastic job, whose nodes join and leave.

    There is always a leader, which polls as often as a real one. A program stops at once when it is asked to, or when
    a member is lost; the time that stopping and starting take is in the costs of the work.
    """

    def __init__(self, work: Work, bounds: Bounds, timing: Timing) -> None:
        self.work, self.bounds, self.timing = work, bounds, timing
        self.why = ""
        self.state = State(number=0, term=1, leader="")
        self.since_s = 0.0
        self.seen: dict[str, Seen] = {}
        self.silent: set[str] = set()  # members that left or were lost
        self.lost = False  # whether a member was lost since the program ran last
        self.starts_s = NEVER
        self.looks_s = NEVER
        self.quiet_s = 0.0  # the time when all time-outs of the policy are over

    def take_step(self, now_s: float, changes: Changes) -> None:
        for node in changes.up:
            # The policy orders nodes by their names, so numbers need equal lengths.
            name = f"{node:09}"
            self.seen[name] = Seen(Node(name, 1, name), now_s, now_s)
        for lost in changes.lost:
            self._remove_lost(now_s, lost)
        if changes.up or changes.lost:
            self._wake(now_s)
        if self.looks_s <= now_s:
            self._look(now_s)
        if self.starts_s <= now_s:
            self.work.start(now_s, len(self.state.members))
            self.starts_s = NEVER

    def find_next_time(self) -> float:
        return min(self.starts_s, self.looks_s)

    def _remove_lost(self, now_s: float, lost: Lost) -> None:
        name = f"{lost.node:09}"
        # The node never was a member, so no other node waits for its heartbeat.
        if self.state.rank(name) is None:
            del self.seen[name]
            return
        self.seen[name] = self.seen[name]._replace(changed=now_s, word=GONE if lost.told else "")
        self.silent.add(name)
        self.work.stop(now_s, told=lost.told)
        self.starts_s = NEVER
        self.lost = True

    def _wake(self, now_s: float) -> None:
        timing = self.timing
        # The sum of all time-outs that may follow a change, one after the other.
        longest_s = timing.lease_s + timing.ready_s + (CALLS + 1) * timing.last_call_s
        self.quiet_s = now_s + longest_s + 2 * timing.beat_s
        self.looks_s = min(self.looks_s, now_s + timing.hurry_s)

    def _look(self, now_s: float) -> None:
        """Do what a leader does at each heartbeat, and what the nodes do in reply."""
        there = {name: SAID for name in self.seen if name not in self.silent}
        seen = {**self.seen, **{name: self.seen[name]._replace(changed=now_s) for name in there}}
        sight = Sight(now_s, self.since_s, now_s, seen, there)
        state = decide(self.state, sight, self.bounds, self.timing)
        if state is not self.state:
            self._take_state(now_s, state)
        pause_s = self.timing.beat_s if self.state.phase == RUNNING else self.timing.hurry_s
        # Without this end, a simulated day would be simulated heartbeat by heartbeat.
        over = now_s >= self.quiet_s or self._is_settled()
        self.looks_s = NEVER if over else now_s + pause_s

    def _is_settled(self) -> bool:
        """Return whether all nodes that can take part do, so that the leader waits for nothing."""
        count = len(self.state.members)
        everyone = count in (len(self.seen), self.bounds.most)
        return self.state.phase == RUNNING and everyone and not self.silent

    def _take_state(self, now_s: float, state: State) -> None:
        self.state, self.since_s = state, now_s
        self._wake(now_s)
        if state.phase != RUNNING:
            self.work.stop(now_s, told=True)
            self.starts_s = NEVER
            return
        costs = self.work.costs
        first = state.generation == 1
        # The first start costs what any job pays, so it is no cost of a change.
        gap_s = 0.0 if first else costs.loss_s if self.lost else costs.join_s
        self.starts_s, self.lost = now_s + gap_s, False
        self.seen = {name: seen for name, seen in self.seen.items() if name not in self.silent}
        self.silent.clear()
