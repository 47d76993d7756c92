"""One node's part in an elastic job, in passes: send a heartbeat, read the state, send messages, and lead if elected.

No function here waits or accesses a store: a pass is a generator that yields requests and is sent the replies, and
the clock is an argument. So the tests run this code in simulated time, and `member` runs it with a real store.
"""

import json
import re
from typing import Any, Callable, NamedTuple, Optional, Set, Tuple

from runspec_agent.base.job_env import Failure
from runspec_agent.elastic import fence
from runspec_agent.elastic.fence import Ask, Work
from runspec_agent.elastic.leader_view import NODES, SAID, Watch, name_of
from runspec_agent.elastic.policy import (
    AGAIN,
    DONE,
    FINISHED,
    FORMING,
    FURTHER,
    GONE,
    LEAVING,
    OVERDUE,
    READY,
    RUNNING,
    Bounds,
    Node,
    State,
    Timing,
    decide,
    newcomers,
    word_of,
)

STATE = "state"
# Nodes that may join in a second, with four requests each. S3 takes 3,500 puts a second below a prefix:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
AT_ONCE = 400

Clock = Callable[[], float]


class View(NamedTuple):
    """What a node may do: run the program of *generation* if *rank* is not None, and nothing else."""

    generation: int
    phase: str  # "forming", "running" or "done"
    rank: Optional[int]  # of this node among *members*; None: it has to stop or wait
    members: Tuple[Node, ...]  # while a generation is formed: of the last one that ran
    leader: str
    code: int  # the exit code of the job
    why: str
    lost: bool  # the store was silent for so long that other nodes may think this node lost
    stayed: int = 0  # how many of the members, the first ones, were in the generation before
    went: Tuple[
        Tuple[Node, str], ...
    ] = ()  # former members, and why each is not in this generation


class MemberProtocol:
    """The protocol of one node. Methods may be called by one thread at a time."""

    def __init__(
        self,
        me: Node,
        bounds: Bounds,
        timing: Timing,
        clock: Clock,
        wall: Clock = lambda: 0.0,
        dice: Clock = lambda: 0.5,
    ) -> None:
        """Prepare the protocol; *dice* returns numbers from 0 to 1, which spread requests of many nodes over time."""
        if re.search("[,/]", me.id + me.host):
            raise Failure(
                "'{}' of '{}' cannot be a node: an id has no comma and no slash".format(
                    me.id, me.host
                )
            )
        self.me, self.bounds, self.timing = me, bounds, timing
        self._clock, self._wall, self._dice = clock, wall, dice
        # Whether the agent of a node has certainly ended, of those that were met at the port in their record.
        self.ended: Callable[[str], bool] = lambda _: False
        self.port = 0
        self._met = 0  # the last generation with whose nodes this one has met
        self.state: Optional[State] = None
        self._etag: Optional[str] = None
        self._sure = False  # whether _etag is that of the last write, as far as is known
        self._changed = self.answered_at = self._next_beat = clock()
        self._hurry_until = clock() + timing.hurried_s
        self._watch: Optional[Watch] = None
        self._beats = 0
        self._idle = True  # whether the program is not running
        self._further = False  # whether the program made progress when it last ran
        self._began = 0  # the last generation in which the program was allowed to run
        self.fenced = 0  # the last generation that this node stopped because the store was silent
        self._over: Tuple[int, str] = (
            0,
            "",
        )  # the generation whose program has ended, and the message about it
        self._words: Set[str] = set()  # messages about the node itself
        self._because = ""
        self._told: Set[str] = set()  # keys of messages that were written

    # Methods for the agent.

    def view(self) -> View:
        lost = self._lost(self._clock())
        state = self.state
        if state is None:
            return View(0, FORMING, None, (), "", 0, "", lost)
        stopped = state.generation in (self.fenced, self._over[0])
        runs = state.phase == RUNNING and not (lost or stopped or self._words)
        rank = state.rank(self.me.id) if runs else None
        found = state.generation, state.phase, rank, state.members, state.leader
        return View(*found, state.code, state.why, lost, state.stayed, state.went)

    def ready(self, generation: int, further: bool = False) -> None:
        """Report that the program is not running and its files are saved; *generation* is later than its own."""
        if generation > self._began:
            self._idle = True
            self._further = self._further or further

    def finish(self, generation: int, code: int, further: bool = False) -> None:
        """Report that the program of *generation* has ended by itself."""
        if generation == self._began:
            self._over = generation, word_of(code)
            self._idle, self._further = True, further
            self._hurry_until = self._clock() + self.timing.hurried_s

    def leave(self, gone: bool = False, why: str = "") -> None:
        """Report that this node will leave, and *why*; *gone*: that it runs no program and has nothing to save."""
        self._because = self._because or why
        self._words.add(GONE if gone else LEAVING)

    def first_s(self) -> float:
        """Return the seconds to wait before the first pass, as all nodes may have started at once."""
        return min(self.timing.beat_s, self.bounds.most / AT_ONCE) * self._dice()

    def pause_s(self) -> float:
        """Return the seconds to wait before the next pass."""
        now = self._clock()
        until = max(0.0, self._next_beat - now)
        if now < self._hurry_until or self._late(now):
            return min(until, self.timing.hurry_s * (0.75 + self._dice() / 2))
        return until

    def _late(self, now: float) -> bool:
        """Return whether the leader has missed a heartbeat, so that another node may take over soon."""
        if self.state is None or self.state.phase == DONE:
            return False
        waited_s = now - self._changed
        return 1.5 * self.timing.beat_s < waited_s < self.timing.lease_s + 2 * self.timing.beat_s

    def overdue(self) -> None:
        """Report that this node has been here for as long as `timeout`, which ends the job."""
        self._words.add(OVERDUE)
        self._hurry_until = self._clock() + self.timing.hurried_s

    # One pass.

    def step(self) -> Work:
        """Do one pass. Raise Failure if the store does not answer: the next pass continues."""
        began = self._clock()
        self._lost(began)
        early_s = self.timing.hurry_s / 10  # waiting threads may wake up so much too early
        beats = began >= self._next_beat - early_s
        if beats:
            yield from self._beat()
        yield from self._go()
        if not (self._leads and self._sure):
            yield from self._look()
        yield from self._say()
        heard = True
        if self.state is None:
            yield from self.swap(State(1, 1, self.me.id))
        elif self._leads:
            heard = yield from self._lead(beats)
        elif self._abandoned():
            yield from self._take_over(self.state)
        yield from self._say()
        yield from self._meet()
        if beats and heard:
            self.answered_at = began

    def part(self) -> Work:
        """Report that this node has left, and let another node lead at once."""
        self.leave(gone=True)
        yield from self._go()
        if self.state is not None and self._leads and self.state.phase != DONE:
            yield from self.swap(self.state._replace(number=self.state.number + 1, leader=""))

    def _lost(self, now: float) -> bool:
        """Return whether other nodes may think this node lost; its program has to stop then."""
        lost = now - self.answered_at > self.timing.limit_s
        if lost and self._runs and not self._idle:
            self.fenced = self._began
        return lost

    @property
    def _runs(self) -> bool:
        state = self.state
        return state is not None and state.phase == RUNNING and state.generation == self._began

    def _beat(self) -> Work:
        self._beats += 1  # counted even if the write fails: an unchanged ETag is no heartbeat
        record = {
            "beat": self._beats,
            "id": self.me.id,
            "generation": self._began,
            "port": self.port,
        }
        yield Ask("put", NODES + name_of(self.me), json.dumps(record, sort_keys=True).encode())
        now = self._clock()
        self._next_beat = now + self.timing.beat_s * (0.9 + self._dice() / 10)

    def _go(self) -> Work:
        """Write the messages about this node itself: a list shows the messages, and their content is the reason."""
        prefix = NODES + name_of(self.me) + ","
        yield from self._tell(prefix, sorted(self._words), self._because.encode())

    def _tell(self, prefix: str, words: Any, content: bytes = b"") -> Work:
        for word in words:
            if prefix + word not in self._told:
                yield Ask("put", prefix + word, content)
                self._told.add(prefix + word)

    def _say(self) -> Work:
        word = "" if self.state is None else self._word(self.state)
        if self.state is not None and word:
            prefix = "{}{},".format(SAID.format(self.state.generation), self.me.id)
            yield from self._tell(prefix, [FURTHER] * (word == READY and self._further) + [word])

    def _word(self, state: State) -> str:
        rank = state.rank(self.me.id)
        over, word = self._over
        if state.phase == RUNNING and rank is not None:
            if over == state.generation:
                return word
            return AGAIN if self.fenced == state.generation else ""
        if state.phase == FORMING and rank == 0 and over == self._began and word == FINISHED:
            return FINISHED
        return READY if self._idle and state.phase != DONE else ""

    def _meet(self) -> Work:
        """Connect the leader with all members, once in each generation, so that a loss of either shows at once."""
        state = self.state
        if (
            not self.port
            or state is None
            or state.phase != RUNNING
            or self._met == state.generation
        ):
            return
        self._met = state.generation
        for node in state.members:
            if node.id != self.me.id and (self._leads or node.id == state.leader):
                yield Ask("meet", NODES + name_of(node))

    def _look(self) -> Work:
        found = yield Ask("fetch", STATE)
        if found is None and self.state is not None:
            raise Failure("the job's state is gone")
        if found is not None and self.state is not None and found[1] == self._etag:
            self._adopt(self.state, found[1])
        elif found is not None:
            self._adopt(State.of(found[0]), found[1])

    def _adopt(self, state: State, etag: str) -> None:
        now = self._clock()
        before, self.state = self.state, state
        self._sure = True
        if etag != self._etag:
            self._etag, self._changed = etag, now
        if before is None or (before.generation, before.phase) != (state.generation, state.phase):
            self._hurry_until = now + self.timing.hurried_s * (state.phase == FORMING)
        if state.leader != self.me.id:
            self._watch = None
        elif self._watch is None:
            self._watch = Watch(now, "" if before is None else before.leader)
        runs = state.phase == RUNNING and state.rank(self.me.id) is not None
        if runs and self._began < state.generation:
            self._began, self._idle, self._further = state.generation, False, False

    def swap(self, new: State) -> Work:
        """Replace the last state that was read by *new*, and return whether that worked; otherwise read it again."""
        self._sure = False
        content = new.to_bytes()
        etag = yield Ask("swap", STATE, content, self._etag)
        if etag is None:
            yield from self._look()
        else:
            self._adopt(new, etag)
        return etag is not None

    @property
    def _leads(self) -> bool:
        return self._watch is not None

    def _abandoned(self) -> bool:
        assert self.state is not None, "BUG: no state was read"
        if self.state.phase == DONE or self._words - {OVERDUE}:
            return False
        leader, silent_s = self.state.leader, self._clock() - self._changed
        return not leader or self.ended(leader) or silent_s > self.timing.lease_s

    def _take_over(self, state: State) -> Work:
        new = state._replace(number=state.number + 1, term=state.term + 1, leader=self.me.id)
        yield from self.swap(new)
        self._hurry_until = self._clock() + 2 * self.timing.beat_s

    def _lead(self, beats: bool) -> Work:
        """Read the records of all nodes, and write the resulting state, or renew the lease with a heartbeat.

        Return whether the state was written. A node that takes over relies on it: a leader that could not write has
        stopped.
        """
        watch, state = self._watch, self.state
        assert watch is not None and state is not None, "BUG: this node does not lead"
        if state.phase == DONE:
            return True
        watch.knows(state.generation, state.phase, self._clock())
        asked = (
            self._clock()
        )  # the list may be old when it arrives: heartbeats since then are unknown
        nodes = yield Ask("list", NODES)
        said = yield Ask("list", SAID.format(state.generation))
        now = self._clock()
        watch.take(nodes, said, now, self.timing)
        watch.lose(node.id for node in state.members if self.ended(node.id))
        sight = watch.sight(asked, self._wall())
        new = decide(state, sight, self.bounds, self.timing)
        if newcomers(state, sight, self.bounds, self.timing):
            self._hurry_until = max(self._hurry_until, now + self.timing.last_call_s)
        if new is state and not beats:
            return False
        starts = new.phase == RUNNING and state.phase == FORMING
        if starts and not (yield from fence.raised(new.generation)):
            self._sure = False  # another node has taken over
            return False
        return (yield from self.swap(new._replace(number=state.number + 1)))
