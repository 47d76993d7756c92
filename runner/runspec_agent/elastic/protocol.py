"""What one node of an elastic job does, pass by pass: it beats, looks, says what it has to, and may lead.

Nothing here waits, or talks to a store: a pass is a generator that yields requests and is sent the replies, with a
clock that it is given. So the same code goes through simulated time in the tests, and through a real store in `member`.
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
# Nodes a second that come, with four requests each. S3 takes 3,500 puts a second below a prefix:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
AT_ONCE = 400

Clock = Callable[[], float]


class View(NamedTuple):
    """What a node may do: run the program of *generation* where *rank* is not None, and nothing else."""

    generation: int
    phase: str  # "forming", "running" or "done"
    rank: Optional[int]  # of this node among *members*; None: it has to stop, or wait
    members: Tuple[Node, ...]  # while it forms: of the last generation that ran
    leader: str
    code: int  # that the job has ended with
    why: str
    lost: bool  # the store was silent for too long, so that others may think this node gone
    stayed: int = 0  # so many of the members, the first ones, are of the generation before
    went: Tuple[Tuple[Node, str], ...] = ()  # its other members, and what became of them


class MemberProtocol:
    """One node's part. Each method is called by one thread at a time."""

    def __init__(
        self,
        me: Node,
        bounds: Bounds,
        timing: Timing,
        clock: Clock,
        wall: Clock = lambda: 0.0,
        dice: Clock = lambda: 0.5,
    ) -> None:
        """*dice* gives numbers from 0 to 1, so that many nodes do not come at the same moment."""
        if re.search("[,/]", me.id + me.host):
            raise Failure(
                "'{}' of '{}' cannot be a node: no comma, no slash".format(me.id, me.host)
            )
        self.me, self.bounds, self.timing = me, bounds, timing
        self._clock, self._wall, self._dice = clock, wall, dice
        self.state: Optional[State] = None
        self._etag: Optional[str] = None
        self._sure = False  # whether _etag is that of the last write, as far as can be known
        self._changed = self._answered = self._next_beat = clock()
        self._hurry_until = clock() + timing.hurried_s
        self._watch: Optional[Watch] = None
        self._beats = 0
        self._idle = True  # whether the program is not running
        self._further = False  # whether it has got on when it last ran
        self._began = 0  # the last generation that it was allowed to run in
        self._fenced = 0  # the last one that it had to stop in, by itself
        self._over: Tuple[int, str] = (0, "")  # the generation whose program has ended, and how
        self._words: Set[str] = set()  # of the node
        self._because = ""
        self._told: Set[str] = set()  # keys of words that were put

    # What the agent asks and says.

    def view(self) -> View:
        lost = self._lost(self._clock())
        state = self.state
        if state is None:
            return View(0, FORMING, None, (), "", 0, "", lost)
        stopped = state.generation in (self._fenced, self._over[0])
        runs = state.phase == RUNNING and not (lost or stopped or self._words)
        rank = state.rank(self.me.id) if runs else None
        found = state.generation, state.phase, rank, state.members, state.leader
        return View(*found, state.code, state.why, lost, state.stayed, state.went)

    def ready(self, generation: int, further: bool = False) -> None:
        """Say that the program is not running, and what it wrote is saved; *generation* is later than it ran in."""
        if generation > self._began:
            self._idle = True
            self._further = self._further or further

    def finish(self, generation: int, code: int, further: bool = False) -> None:
        """Say that the program of *generation* has ended by itself."""
        if generation == self._began:
            self._over = generation, word_of(code)
            self._idle, self._further = True, further
            self._hurry_until = self._clock() + self.timing.hurried_s

    def leave(self, gone: bool = False, why: str = "") -> None:
        """Say that this node is going, and *why*; *gone*: that it runs nothing any more, and has nothing to save."""
        self._because = self._because or why
        self._words.add(GONE if gone else LEAVING)

    def first_s(self) -> float:
        """Return how long to wait before the first pass: all may have been started at the same moment."""
        return min(self.timing.beat_s, self.bounds.most / AT_ONCE) * self._dice()

    def pause_s(self) -> float:
        """Return how long to wait before the next pass."""
        now = self._clock()
        until = max(0.0, self._next_beat - now)
        if now < self._hurry_until or self._late(now):
            return min(until, self.timing.hurry_s * (0.75 + self._dice() / 2))
        return until

    def _late(self, now: float) -> bool:
        """Say whether who leads has missed a beat, and will be followed soon."""
        if self.state is None or self.state.phase == DONE:
            return False
        waited_s = now - self._changed
        return 1.5 * self.timing.beat_s < waited_s < self.timing.lease_s + 2 * self.timing.beat_s

    # A pass.

    def step(self) -> Work:
        """Do one pass. Raise Failure when the store gives no answer: the next pass goes on."""
        began = self._clock()
        self._lost(began)
        early_s = self.timing.hurry_s / 10  # by which who waits may wake up
        beats = began >= self._next_beat - early_s
        if beats:
            yield from self._beat()
        yield from self._go()
        if not (self._leads and self._sure):
            yield from self._look()
        yield from self._say()
        heard = True
        if self.state is None:
            yield from self._swap(State(1, 1, self.me.id))
        elif self._leads:
            heard = yield from self._lead(beats)
        elif self._abandoned():
            yield from self._take_over(self.state)
        yield from self._say()
        if beats and heard:
            self._answered = began

    def part(self) -> Work:
        """Say that this node is gone, and have another one lead at once."""
        self.leave(gone=True)
        yield from self._go()
        if self.state is not None and self._leads and self.state.phase != DONE:
            yield from self._swap(self.state._replace(number=self.state.number + 1, leader=""))

    def _lost(self, now: float) -> bool:
        """Say whether the others may think this node gone; a program that ran then does not go on."""
        lost = now - self._answered > self.timing.limit_s
        if lost and self._runs and not self._idle:
            self._fenced = self._began
        return lost

    @property
    def _runs(self) -> bool:
        state = self.state
        return state is not None and state.phase == RUNNING and state.generation == self._began

    def _beat(self) -> Work:
        self._beats += 1  # also where nobody hears of it: an ETag that does not change is no beat
        record = {"beat": self._beats, "id": self.me.id, "generation": self._began}
        yield Ask("put", NODES + name_of(self.me), json.dumps(record, sort_keys=True).encode())
        now = self._clock()
        self._next_beat = now + self.timing.beat_s * (0.9 + self._dice() / 10)

    def _go(self) -> Work:
        """Say what was decided of this node: a list shows the words, and what lies there says why."""
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
            return AGAIN if self._fenced == state.generation else ""
        if state.phase == FORMING and rank == 0 and over == self._began and word == FINISHED:
            return FINISHED
        return READY if self._idle and state.phase != DONE else ""

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

    def _swap(self, new: State) -> Work:
        """Write *new* in the place of what was seen last, and return whether; who was too late looks again."""
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
        assert self.state is not None, "BUG: nothing was seen"
        if self.state.phase == DONE or self._words:
            return False
        return not self.state.leader or self._clock() - self._changed > self.timing.lease_s

    def _take_over(self, state: State) -> Work:
        new = state._replace(number=state.number + 1, term=state.term + 1, leader=self.me.id)
        yield from self._swap(new)
        self._hurry_until = self._clock() + 2 * self.timing.beat_s

    def _lead(self, beats: bool) -> Work:
        """Look at all nodes, and write what becomes of it, or with a beat that this one still leads.

        Return whether that was written. Who takes over counts on it that a leader who did not write has stopped.
        """
        watch, state = self._watch, self.state
        assert watch is not None and state is not None, "BUG: it does not lead"
        if state.phase == DONE:
            return True
        watch.knows(state.generation, state.phase, self._clock())
        asked = self._clock()  # a list may be old when it comes: it shows nobody silent after that
        nodes = yield Ask("list", NODES)
        said = yield Ask("list", SAID.format(state.generation))
        now = self._clock()
        watch.take(nodes, said, now, self.timing)
        sight = watch.sight(asked, self._wall())
        new = decide(state, sight, self.bounds, self.timing)
        if newcomers(state, sight, self.bounds, self.timing):
            self._hurry_until = max(self._hurry_until, now + self.timing.last_call_s)
        if new is state and not beats:
            return False
        starts = new.phase == RUNNING and state.phase == FORMING
        if starts and not (yield from fence.raised(new.generation)):
            self._sure = False  # somebody else has led on
            return False
        return (yield from self._swap(new._replace(number=state.number + 1)))
