"""Nodes of an elastic job that meet in simulated time: a store that answers after a while, and nothing that goes wrong.

What goes wrong is for the tests, which have a world of their own for that.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from runspec_agent.elastic.fence import Ask, Work
from runspec_agent.elastic.node import LOOK_S
from runspec_agent.elastic.policy import Bounds, Node, Timing
from runspec_agent.elastic.protocol import MemberProtocol

TICK_S = 0.01


class Meeting:
    """*count* nodes that start at the same moment, and their store."""

    def __init__(self, count: int, timing: Timing, latency_s: float, seed: int) -> None:
        self.timing, self.latency_s = timing, latency_s
        self.now, self.requests = 0.0, 0
        self._dice = random.Random(seed)  # noqa: S311 - no secret
        self._records: dict[str, bytes] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        bounds = Bounds(count, count)
        self.nodes = [self._node(n, bounds) for n in range(count)]
        self._waiting = set(range(count))  # numbers of nodes that may not run yet

    def run(self, until_s: float) -> bool:
        """Go on until all may run, and say whether they did in time."""
        while self._waiting and self._due and self._due[0][0] <= until_s:
            self.now, _, do = heapq.heappop(self._due)
            do()
        return not self._waiting

    def _node(self, number: int, bounds: Bounds) -> MemberProtocol:
        me = Node(f"{number:05}", 1, f"host-{number}")
        course = MemberProtocol(me, bounds, self.timing, lambda: self.now, dice=self._dice.random)
        self._after(course.first_s(), lambda: self._pass(course))
        self._after(self._dice.uniform(0, LOOK_S), lambda: self._look(number))
        return course

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now + seconds, self._count, do))

    def _pass(self, course: MemberProtocol) -> None:
        """Go through one pass after the other, as the thread of a node's membership."""

        def then() -> None:
            self._after(max(TICK_S, course.pause_s()), lambda: self._pass(course))

        self._work(course.step(), None, then)

    def _look(self, number: int) -> None:
        """Find out what the node may do, as its agent does."""
        view = self.nodes[number].view()
        if view.rank is not None:
            self._waiting.discard(number)
            return
        self.nodes[number].ready(view.generation)
        self._after(LOOK_S, lambda: self._look(number))

    def _work(self, work: Work, reply: Any, then: Callable[[], None]) -> None:
        try:
            ask = work.send(reply)
        except StopIteration:
            then()
            return
        self.requests += 1

        def arrive() -> None:
            answer = self._answer(ask)
            self._after(self.latency_s / 2, lambda: self._work(work, answer, then))

        self._after(self.latency_s / 2, arrive)

    def _answer(self, ask: Ask) -> Any:
        """Return what a store answers; an ETag is the content itself."""
        if ask.verb == "list":
            found = [key for key in self._records if key.startswith(ask.key)]
            return [(key[len(ask.key) :], self._records[key].decode()) for key in found]
        old = self._records.get(ask.key)
        if ask.verb == "fetch":
            return None if old is None else (old, old.decode())
        if ask.verb == "swap" and (None if old is None else old.decode()) != ask.etag:
            return None
        self._records[ask.key] = ask.content
        return ask.content.decode()
