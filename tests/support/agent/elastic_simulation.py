"""Simulated time: a store with conditional writes, a network that loses and delays, and nodes with clocks of their own.

The nodes are the real `MemberProtocol`. Their requests arrive when the network lets them, even after they gave up.
The store knows what must never happen, and says so at the moment that it does.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.elastic.fence import FENCE, Ask, FencingToken, Work, committed, looked
from runspec_agent.elastic.policy import DONE, RUNNING, Bounds, Node, State, Timing
from runspec_agent.elastic.protocol import STATE, MemberProtocol, View

Then = Callable[[Any, Failure | None], None]
TICK_S = 0.01
WRITES = ("put", "swap")
LATE_S = 120.0  # at the most for a write that arrives twice


class Broken(AssertionError):
    """What must never happen has happened."""


class Store:
    """S3 as its documentation has it: strong reads, and writes on condition of a hash of the content."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.records: dict[str, bytes] = {}
        self.folders: dict[str, dict[str, str]] = {}
        self.before: dict[str, dict[str, str]] = {}  # lists, as they were a while ago
        self.leaders: dict[int, str] = {}
        self.ran: dict[int, tuple[Node, ...]] = {}
        self.formed: dict[int, float] = {}  # when a generation was first to be formed
        self.notes: list[tuple[int, str]] = []
        self.commits = 0

    def do(self, ask: Ask, who: str) -> Any:
        if ask.verb == "list":
            old = self.world.dice.random() < self.world.stale
            return list((self.before if old else self.folders).get(ask.key, {}).items())
        found = self.records.get(ask.key)
        if ask.verb == "fetch":
            return None if found is None else (found, found.decode())
        if ask.verb == "swap" and not self.fits(found, ask.etag):
            return None
        if ask.key == STATE:
            self._written(State.of(found) if found else None, State.of(ask.content), who)
        elif ask.key == FENCE:
            self.marked(
                FencingToken.of(found) if found else FencingToken(), FencingToken.of(ask.content)
            )
        self._put(ask)
        return ask.content.decode()

    def fits(self, found: bytes | None, etag: str | None) -> bool:
        return (None if found is None else found.decode()) == etag

    def _put(self, ask: Ask) -> None:
        self.records[ask.key] = ask.content
        folder, slash, name = ask.key.rpartition("/")
        self.folders.setdefault(folder + slash, {})[name] = ask.content.decode()

    @property
    def state(self) -> State | None:
        found = self.records.get(STATE)
        return State.of(found) if found else None

    def _written(self, old: State | None, new: State, who: str) -> None:
        """One leader of each term, whose writes follow on each other; what has run, or is done, stays so."""
        if old is None:
            old = State(0, 0, "", generation=0)
        if new.term == old.term:
            if who != old.leader or new.leader not in (who, ""):
                raise Broken(f"{who} writes in the term of {old.leader}")
        elif new.term != old.term + 1 or new.leader != who:
            raise Broken(f"{who} writes term {new.term} after {old.term}")
        if self.leaders.setdefault(new.term, who) != who:
            raise Broken(f"{who} and {self.leaders[new.term]} lead term {new.term}")
        if new.number != old.number + 1:
            raise Broken(f"write {new.number} follows {old.number}")
        if not old.generation <= new.generation <= old.generation + 1 or old.phase == DONE:
            raise Broken(f"{new.generation} {new.phase} follows {old.generation} {old.phase}")
        self.formed.setdefault(new.generation, self.world.now)
        if new.phase == RUNNING:
            if self.ran.setdefault(new.generation, new.members) != new.members:
                raise Broken(f"generation {new.generation} has changed while it runs")
            if not self.world.bounds.least <= len(new.members) <= self.world.bounds.most:
                raise Broken(f"{len(new.members)} nodes run")

    def marked(self, old: FencingToken, new: FencingToken) -> None:
        """Nothing is written for a generation when a later one has begun."""
        if new.generation < old.generation:
            raise Broken(f"the fence falls from {old.generation} to {new.generation}")
        if new.note == old.note:
            return
        self.commits += 1
        self.notes.append((new.generation, new.note))
        if new.generation < self.world.started or f" of {new.generation} " not in new.note:
            raise Broken(f"'{new.note}' is written in {new.generation}: {self.world.started} runs")


class World:
    def __init__(self, seed: int, bounds: Bounds, timing: Timing) -> None:
        self.seed, self.bounds, self.timing = seed, bounds, timing
        self.dice = random.Random(seed)
        self.now = 0.0
        self.store = Store(self)
        self.nodes: list[Machine] = []
        self.started = 0  # the latest generation that somebody's program has started in
        self.latency_s = (0.01, 0.05)
        self.loses = 0.0  # of all requests and replies
        self.doubles = 0.0  # of all writes: they arrive once more, much later
        self.stale = 0.0  # of all lists: they are of a while ago
        self.lied = (
            False  # a list was, or a clock has jumped: only the fence and the terms hold then
        )
        self.saves = 0.2  # how often a first node begins to save when it looks
        self.requests = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, do))

    def run(
        self, until: float, over: Callable[[], bool] = lambda: False, every_s: float = 1.0
    ) -> bool:
        """Go on until then, or until it is *over*, which is looked at every so often; say whether it was."""
        looked_at = self.now
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do()
            if self.now - looked_at >= every_s:
                looked_at = self.now
                if over():
                    return True
        self.now = until
        return over()

    def add(self) -> Machine:
        found = Machine(self, len(self.nodes))
        self.nodes.append(found)
        return found

    def age(self) -> None:
        """Have lists that are stale be of now."""
        self.store.before = {key: dict(names) for key, names in self.store.folders.items()}

    def up(self) -> list[Machine]:
        """Return who could run now."""
        return [n for n in self.nodes if n.up and not n.leaving and not (n.hangs and n.stopping)]


class Machine:
    """A node: its membership and its agent, which are two threads, and the network between it and the store."""

    def __init__(self, world: World, number: int) -> None:
        self.world, dice = world, world.dice
        self.rate = dice.uniform(0.96, 1.04)  # of its clock
        self.skew_s = dice.uniform(-1e6, 1e6)
        self.me = Node(f"{number:03}", 1, f"host-{number}")
        self.up, self.leaving = True, False
        self.thaws = 0.0  # when it goes on; 0: it is not frozen
        self.beat, self.missed = (
            -1e12,
            world.now,
        )  # when it had an answer last, and after a long silence
        self.pauses: tuple[int, float] = (0, 0.0)  # once that many requests are done, for so long
        self._stood = -1e12  # what its clock showed when it last stood still
        self.asks, self.hears = True, True  # whether requests get out, and replies in
        self.course = MemberProtocol(
            self.me, world.bounds, world.timing, self.clock, lambda: world.now, dice.random
        )
        self.course.ended, self.course.port = self._knows_ended, 1 + number
        self.met: set[str] = set()
        self.running = 0  # the generation of its program
        self.rank = 0
        self.stopping = False
        self.hangs = False  # its program does not end when it is told to
        self.saved = 0
        self.further = True  # whether its program gets on, as its agent sees it
        self.asked: dict[str, int] = {}
        self.view: View | None = None
        self.after(self.course.first_s(), self._pass)
        self.after(dice.uniform(0, world.timing.beat_s / 4), self._look)

    def clock(self) -> float:
        return self.skew_s + self.world.now * self.rate

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do it so many seconds of this node's clock later, if it lives then, and is not frozen."""

        def event() -> None:
            if not self.up:
                return
            if self.thaws > self.world.now:
                self.world.at(self.thaws, event)
            else:
                do()

        self.world.at(self.world.now + seconds / self.rate, event)

    def suspend(self, seconds: float) -> None:
        """Freeze it with its clock, as a machine that is moved to another host."""
        if self.thaws <= self.world.now:
            self.freeze(seconds)
            self._stood = self.clock()
            self.skew_s -= seconds * self.rate

    @property
    def suspect(self) -> bool:
        """Whether it cannot know how long it was silent: its clock stood still, and it has not beaten since."""
        return self.course.answered_at <= self._stood

    def jump(self, seconds: float) -> None:
        """Have its clock go forward at once, as no clock of a process does."""
        self.skew_s += seconds * self.rate
        self.world.lied = True

    def freeze(self, seconds: float) -> None:
        self.thaws = max(self.thaws, self.world.now + seconds)

    # The network.

    def _knows_ended(self, who: str) -> bool:
        """Say whether the port of that agent refuses a connection: it had accepted one, and is gone now."""
        gone = not next(node.up for node in self.world.nodes if node.me.id == who)
        return who in self.met and gone and self.asks and self.hears

    def _connect(self, ask: Ask) -> None:
        name = ask.key.rpartition("/")[2]
        for node in self.world.nodes:
            if name.startswith(node.me.id + ",") and node.up and node.asks and node.hears:
                self.met.add(node.me.id)

    def work(self, work: Work, then: Then, reply: Any = None, error: Failure | None = None) -> None:
        try:
            ask = work.throw(error) if error else work.send(reply)
        except StopIteration as end:
            then(end.value, None)
        except Failure as failure:
            then(None, failure)
        else:
            self._request(ask, lambda reply, error: self.work(work, then, reply, error))

    def _request(self, ask: Ask, then: Then) -> None:
        """Send it; no reply within a beat is a failure, and says nothing about what has been done."""
        world, timeout_s = self.world, self.world.timing.beat_s
        world.requests += 1
        self.asked[ask.verb] = self.asked.get(ask.verb, 0) + 1
        there_s, back_s = world.dice.uniform(*world.latency_s), world.dice.uniform(*world.latency_s)
        arrives = self.asks and world.dice.random() >= world.loses
        returns = arrives and self.hears and world.dice.random() >= world.loses
        in_time = there_s + back_s < timeout_s and returns

        def again() -> None:
            world.store.do(ask, self.me.id)

        def arrive() -> None:
            reply = None if ask.verb == "meet" else world.store.do(ask, self.me.id)
            if ask.verb == "meet":
                self._connect(ask)
            self._pause()
            if ask.verb in WRITES and world.dice.random() < world.doubles:
                world.at(world.now + world.dice.uniform(0, LATE_S), again)
            if in_time:
                self.after(back_s * self.rate, lambda: then(reply, None))

        if arrives:
            world.at(world.now + there_s, arrive)
        if not in_time:
            self.after(timeout_s, lambda: then(None, Failure("no answer", LOST)))

    def _heard(self) -> None:
        """Note that it had an answer: by its own clock it need not stop then."""
        now = self.world.now
        if now - self.beat > 0.7 * self.world.timing.lease_s:
            self.missed = now
        self.beat = now

    def _pause(self) -> None:
        left, seconds = self.pauses
        if left:
            self.pauses = left - 1, seconds
            if left == 1:
                self.freeze(seconds)

    # The thread of the membership.

    def _pass(self) -> None:
        self.work(self.course.step(), self._passed)

    def _passed(self, _: object, error: Failure | None) -> None:
        if error is None:
            self._heard()
        pause_s = self.world.timing.beat_s / 2 if error else self.course.pause_s()
        self.after(max(TICK_S, pause_s), self._pass)

    # The agent.

    def _look(self) -> None:
        view = self.view = self.course.view()
        if view.phase == DONE and not self.running:
            self.up = False
            return
        if self.running and not self.stopping:
            if view.rank is None or view.generation != self.running:
                self.stopping = True
                self.after(self.world.dice.uniform(0, self.world.timing.beat_s), self._stop)
            elif self.rank == 0 and self.world.dice.random() < self.world.saves:
                self._save()
        elif not self.running and view.rank is not None:
            self._start(view)
        elif not self.running:
            self.course.ready(view.generation, self.further)
        self.after(self.world.timing.beat_s / 4, self._look)

    def _start(self, view: View) -> None:
        """Run the program, and look whether anybody else may run that of another generation."""
        self.running, self.rank = view.generation, view.rank or 0
        self.world.started = max(self.world.started, view.generation)
        for node in self.world.nodes:
            other = 0 if self.suspect else node.may_run()
            if other not in (0, view.generation) and not self.world.lied:
                raise Broken(f"{node.me.id} runs {other}, and {self.me.id} {view.generation}")
            if 0 < node.running < view.generation and self._should_wait_for(node, view.generation):
                raise Broken(f"{node.me.id} has yet to stop, and {self.me.id} runs already")

    def _should_wait_for(self, node: Machine, generation: int) -> bool:
        """Say whether a program of the generation before has time to stop: its node was answered all the time."""
        now, timing, store = self.world.now, self.world.timing, self.world.store
        answered = now - node.beat < 0.7 * timing.lease_s and now - node.missed > 2 * timing.lease_s
        early = now - store.formed[generation] < 0.9 * timing.ready_s
        last = node.running == max(n for n in store.ran if n < generation)
        return node.up and answered and early and last and not self.world.lied

    def may_run(self) -> int:
        """Return the generation whose program this node may run by its own clock; nothing of it is changed."""
        if not self.up or self.suspect or self.thaws > self.world.now or self.course.state is None:
            return 0
        before = self.course.fenced
        view = self.course.view()
        self.course.fenced = before
        return view.generation if view.rank is not None else 0

    def _save(self) -> None:
        """Write for a while, and then have it count, whatever has happened meanwhile."""
        generation = self.running
        seconds = self.world.dice.uniform(0, 2 * self.world.timing.beat_s)
        self.after(seconds, lambda: self._commit(generation, lambda *_: None))

    def _commit(self, generation: int, then: Then) -> None:
        self.saved += 1
        note = f"save {self.saved} of {generation} by {self.me.id}"
        self.work(committed(generation, note), then)

    def _stop(self) -> None:
        if self.hangs:
            return
        if self.rank == 0:
            self._commit(self.running, self._stopped)
        else:
            self._stopped(None, None)

    def _stopped(self, _: object, error: Failure | None) -> None:
        if error is not None and self.world.dice.random() < 0.7:
            self.after(self.world.timing.beat_s / 4, self._stop)
            return
        self.running, self.stopping = 0, False
        self.course.ready(self.course.view().generation, self.further)
        if self.leaving:
            self.work(self.course.part(), lambda *_: self.kill())

    # What happens to it.

    def kill(self) -> None:
        self.up = False

    def leave(self) -> None:
        """Be told to end: the others stop, the program saves, and the node goes."""
        self.leaving = True
        self.course.leave()
        if self.running:
            if not self.stopping:
                self.stopping = True
                self.after(self.world.timing.beat_s / 2, self._stop)
        else:
            self.work(self.course.part(), lambda *_: self.kill())

    def fail(self, code: int) -> None:
        """Have the program end by itself."""
        if self.running and not self.stopping:
            generation, self.running = self.running, 0
            self.course.finish(generation, code, self.further)

    def restored(self, then: Then) -> None:
        self.work(looked(), then)
