"""Who is a member of an elastic job, and what the job does next: pure functions without clock, store or random numbers.

One node leads. Only the leader writes the state, by conditional writes, and it renews it with every heartbeat. A node
that sees the state unchanged for the length of the lease becomes the leader, with a new term. A generation is one set
of members that run together. It is formed until every member of the last generation has stopped or is lost, and then
runs with the nodes that reported that they are ready.
"""

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from runspec_agent.base import limits, record_formats, retry_rules
from runspec_agent.base.failure import LOST, STOPPED, Failure

FORMING, RUNNING, DONE = "forming", "running", "done"
READY, AGAIN, FINISHED, FAILED = (
    "ready",
    "again",
    "done",
    "failed-",
)  # messages of a node about a generation
ENDED = AGAIN + "-"  # the program ended by itself, with the code that follows
FURTHER = "further"  # sent before "ready": the generation before made progress
LEAVING, GONE, OVERDUE = (
    "leaving",
    "gone",
    "overdue",  # it has been here for as long as `timeout`
)  # messages of a node about itself, in any generation
LEFT, SILENT, LATE = (
    "left",
    "silent",
    "late",
)  # a member that left reported it, was silent, or did not stop in time
TOO_LONG = 124  # the exit code of a job that has reached `timeout`, as of timeout(1)
CALLS = 3  # extensions of the join window at most, however many nodes join in each
CHANGES = 64  # membership changes that the state lists
IDLE = 10  # generations in a row whose program asked for the next one without making progress
STUCK = "{}: {} times in a row, on the same nodes and without progress"


class Bounds(NamedTuple):
    least: int
    most: int
    attempts: int = 1  # failures of the program after which the job ends
    limit_s: float = 0.0  # `timeout`, after which the first node that is overdue ends the job
    rules: Mapping[str, Any] = {}  # the record of the run with `retry_on`: see `retry_rules`


class Timing(NamedTuple):
    """Durations in seconds of each node's own clock; `limit_s` is shorter than the lease, so that clocks may drift."""

    beat_s: float
    lease_s: float  # after which a node without a heartbeat is lost
    limit_s: float  # after which a node without an answer of the store stops its program
    hurry_s: float  # between two reads of the state while a generation is formed
    hurried_s: float  # how long reads are that frequent after a change
    last_call_s: float  # the join window: time for more nodes to join before a generation starts
    ready_s: float  # for the program to save and stop

    @classmethod
    def of(cls, beat_s: float, grace_s: float) -> "Timing":
        """Return the durations for a heartbeat interval; *grace_s* is the program's time to save and end."""
        lease_s = limits.ELASTIC_LEASE * beat_s
        folder = beat_s <= limits.ELASTIC_FOLDER_BEAT_S
        return cls(
            beat_s,
            lease_s,
            0.8 * lease_s,
            min(beat_s / 5, limits.ELASTIC_FOLDER_LOOK_S) if folder else beat_s / 5,
            60.0,
            max(beat_s, limits.ELASTIC_JOIN_S),
            grace_s + lease_s,
        )


class Node(NamedTuple):
    """A node; *id* is unique to one process, contains no comma, and orders new members."""

    id: str
    slots: int
    host: str


class Change(NamedTuple):
    generation: int
    phase: str
    nodes: int
    at: float  # Unix time of the leader's clock
    why: str


class State(NamedTuple):
    """The state that all nodes follow. While a generation is formed, *members* are those of the last one that ran."""

    number: (
        int  # of writes: no two states that were ever written are equal, so that their ETags differ
    )
    term: int
    leader: str  # "": the leader left, and any node takes over at once
    generation: int = 1
    phase: str = FORMING
    members: Tuple[Node, ...] = ()
    failures: int = 0
    code: int = 0
    why: str = ""
    changes: Tuple[Change, ...] = ()
    stayed: int = 0  # how many of the members, the first ones, were in the generation before
    went: Tuple[
        Tuple[Node, str], ...
    ] = ()  # former members, and why each is not in this generation
    idle: int = 0  # generations in a row without progress

    def rank(self, who: str) -> Optional[int]:
        return next((n for n, member in enumerate(self.members) if member.id == who), None)

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict(), sort_keys=True).encode("ascii")

    @classmethod
    def of(cls, content: bytes) -> "State":
        """Return the state in *content*. Raise Failure if it is not a valid state."""
        try:
            read: Dict[str, Any] = json.loads(content.decode("ascii"))
            found = record_formats.check(read, record_formats.ELASTIC, "the job's state")
            found["members"] = tuple(Node(*member) for member in found["members"])
            found["changes"] = tuple(Change(*change) for change in found["changes"])
            found["went"] = tuple((Node(*node), how) for node, how in found["went"])
            return cls(**found)
        except (ValueError, TypeError, LookupError) as error:
            raise Failure("the job's state cannot be read: {}".format(error)) from error


class Seen(NamedTuple):
    """A node as the leader observed it, with times of the leader's clock."""

    node: Node
    first: float
    changed: float
    word: str = ""  # LEAVING, GONE or OVERDUE


class Sight(NamedTuple):
    """What the leader knows when it decides."""

    now: float
    since: float  # when it first saw the generation and phase
    at: float  # Unix time, for messages
    seen: Mapping[str, Seen]
    said: Mapping[
        str, Mapping[str, float]
    ]  # messages about the generation, by node, with the time each was first seen

    def lives(self, who: str, timing: Timing) -> bool:
        seen = self.seen.get(who)
        changed = self.since if seen is None else seen.changed
        return self.now - changed <= timing.lease_s and (seen is None or seen.word != GONE)

    def says(self, who: str, word: str) -> bool:
        return word in self.said.get(who, {})

    def code_of(self, who: str, word: str) -> Optional[int]:
        """Return the code that follows *word* in the message of *who*."""
        words = (said for said in self.said.get(who, {}) if said.startswith(word))
        return next((int(said[len(word) :]) for said in words), None)

    def stays(self, who: str, timing: Timing) -> bool:
        seen = self.seen.get(who)
        return self.lives(who, timing) and (seen is None or not seen.word)

    def candidates(self, timing: Timing) -> List[Node]:
        """Return the nodes that could be members and run no program now."""
        found = [
            seen.node
            for who, seen in self.seen.items()
            if self.stays(who, timing) and self.says(who, READY)
        ]
        return sorted(found)


def word_of(code: int) -> str:
    """Return the message of a node whose program ended with *code*."""
    if code == 0:
        return FINISHED
    return "{}{}".format(ENDED if code in (LOST, STOPPED) else FAILED, code)


def is_timeout(code: int, why: str) -> bool:
    """Return whether a job ended with *code* and *why* because it had reached `timeout`."""
    return code == TOO_LONG and why.startswith("timeout: ")


def decide(state: State, sight: Sight, bounds: Bounds, timing: Timing) -> State:
    """Return the state that the leader has to write: *state* itself if nothing has changed."""
    if state.phase == DONE:
        return state
    if state.members and sight.says(state.members[0].id, FINISHED):
        return _with_change(state, sight, phase=DONE, code=0, why="the program has exited with 0")
    if any(seen.word == OVERDUE for seen in sight.seen.values()):
        why = "timeout: not done after {:g} s".format(bounds.limit_s)
        return _with_change(state, sight, phase=DONE, code=TOO_LONG, why=why)
    if state.phase == RUNNING:
        return _running(state, sight, bounds, timing)
    return _forming(state, sight, bounds, timing)


def newcomers(state: State, sight: Sight, bounds: Bounds, timing: Timing) -> List[Node]:
    """Return the nodes that wait and for which there is room."""
    waiting = [node for node in sight.candidates(timing) if state.rank(node.id) is None]
    return waiting[: bounds.most - len(state.members)]


def _running(state: State, sight: Sight, bounds: Bounds, timing: Timing) -> State:
    for member in state.members:
        if not sight.lives(member.id, timing):
            return _anew(state, sight, "{} is lost".format(member.host))
        if not sight.stays(member.id, timing):
            return _anew(state, sight, "{} is leaving".format(member.host))
    for member in state.members:
        if sight.says(member.id, AGAIN):
            return _anew(state, sight, "{} restarts".format(member.host))
        ended = sight.code_of(member.id, ENDED)
        if ended is not None:
            why = "the program of {} exited with {}".format(member.host, ended)
            return _anew(state._replace(idle=state.idle + 1), sight, why)
    failed = _failure(state, sight)
    if failed is not None:
        code, why = failed
        state = state._replace(failures=state.failures + 1)
        if state.failures >= bounds.attempts or retry_rules.is_final(bounds.rules, code):
            return _with_change(state, sight, phase=DONE, code=code, why=why)
        return _anew(state, sight, why)
    new = newcomers(state, sight, bounds, timing)
    room = bounds.most - len(state.members)
    settled = sight.now - sight.since >= timing.last_call_s
    if new and settled and not _calling(new, sight, 0, room, timing):
        return _anew(state, sight, "{} joined".format(", ".join(node.host for node in new)))
    return state


def _failure(state: State, sight: Sight) -> Optional[Tuple[int, str]]:
    """Return the code and reason of a failure that counts.

    A program may fail because the node of another one was lost. So a failure counts only once all other nodes have
    sent a later heartbeat.
    """
    failed: List[Tuple[float, int, str]] = []
    silent: List[str] = []
    for member in state.members:
        words = sight.said.get(member.id, {})
        found = [word for word in words if word.startswith(FAILED)]
        if found:
            failed.append((words[found[0]], int(found[0][len(FAILED) :]), member.host))
        else:
            silent.append(member.id)
    if not failed:
        return None
    at, code, host = min(failed)
    if any(who not in sight.seen or sight.seen[who].changed <= at for who in silent):
        return None
    return code, "the program of {} exited with {}".format(host, code)


def _forming(state: State, sight: Sight, bounds: Bounds, timing: Timing) -> State:
    if _waits(state, sight, timing):
        return state
    ready = sight.candidates(timing)
    old = [member for member in state.members if member in ready]
    new = [node for node in ready if state.rank(node.id) is None]
    chosen = (old + new)[: bounds.most]
    missing = bounds.least - len(old)
    if len(chosen) < bounds.least or _calling(new, sight, missing, bounds.most - len(old), timing):
        return state
    if set(chosen) != set(state.members) or any(sight.says(m.id, FURTHER) for m in state.members):
        state = state._replace(idle=0)
    if state.idle >= IDLE:
        return _with_change(state, sight, phase=DONE, code=1, why=STUCK.format(state.why, IDLE))
    went = tuple(
        (member, _fate(member, sight, timing)) for member in state.members if member not in chosen
    )
    stayed = len(state.members) - len(went)
    return _with_change(
        state, sight, phase=RUNNING, members=tuple(chosen), stayed=stayed, went=went
    )


def _fate(member: Node, sight: Sight, timing: Timing) -> str:
    seen = sight.seen.get(member.id)
    if seen is not None and seen.word:
        return LEFT
    return LATE if sight.lives(member.id, timing) else SILENT


def _waits(state: State, sight: Sight, timing: Timing) -> bool:
    """Return whether a member has not stopped yet, or another live node has not reported yet that it is ready."""
    formed_s = sight.now - sight.since
    known = (
        {who for who in sight.seen if sight.stays(who, timing)}
        if formed_s <= timing.lease_s / 2
        else set()
    )
    members = {member.id for member in state.members} if formed_s <= timing.ready_s else set()
    return any(sight.lives(who, timing) and not sight.says(who, READY) for who in known | members)


def _calling(new: List[Node], sight: Sight, missing: int, room: int, timing: Timing) -> bool:
    """Return whether to wait for more nodes: often several join in a row, and each new generation costs all nodes time.

    The wait ends if no node joined during the join window, or if the window was extended often enough since as many
    nodes as are *missing* have joined.
    """
    if not new or len(new) >= room:
        return False
    came = sorted(sight.seen[node.id].first for node in new)
    enough = came[max(0, missing - 1)]
    last_s = timing.last_call_s
    return sight.now - came[-1] < last_s and sight.now - enough < CALLS * last_s


def _anew(state: State, sight: Sight, why: str) -> State:
    return _with_change(state, sight, generation=state.generation + 1, phase=FORMING, why=why)


def _with_change(state: State, sight: Sight, **new: Any) -> State:
    found = state._replace(**new)
    change = Change(found.generation, found.phase, len(found.members), sight.at, found.why)
    return found._replace(changes=(*found.changes, change)[-CHANGES:])
