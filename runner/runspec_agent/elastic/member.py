"""Membership of a node in an elastic job: a thread that runs `protocol` against the store of the run."""

import json
import random
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional

from runspec_agent.base import limits
from runspec_agent.base.job_env import Failure
from runspec_agent.elastic import fence
from runspec_agent.elastic.fence import Ask, Work
from runspec_agent.elastic.leader_view import NODES, node_of
from runspec_agent.elastic.peers import Peers
from runspec_agent.elastic.policy import Bounds, Node, Timing
from runspec_agent.elastic.protocol import MemberProtocol, View
from runspec_agent.store.base import Bucket


def timing(env: Mapping[str, str], grace_s: float) -> Timing:
    """Return the intervals that follow from `RUNSPEC_BEAT_S`, whose default depends on the store."""
    folder = env.get("RUNSPEC_STORE", "").startswith("file://")
    default_s = limits.ELASTIC_FOLDER_BEAT_S if folder else limits.ELASTIC_BEAT_S
    text = env.get("RUNSPEC_BEAT_S") or str(default_s)
    try:
        beat_s = float(text)
    except ValueError:
        beat_s = 0.0
    if not 0.05 <= beat_s <= 600:
        raise Failure("RUNSPEC_BEAT_S: '{}' is not a number of seconds".format(text))
    return Timing.of(beat_s, grace_s)


class Member(threading.Thread):
    """A thread that keeps this node a member of the job; `start` makes it join.

    All methods may be called from any thread, and only the last three wait for the store.

    The agent reads `view` several times per heartbeat. While `view().rank` is a number, it runs the program of
    `view().generation`. When it is None, or the generation is another one, the agent stops the program, saves, and
    calls `ready` with the generation it sees. It calls `finish` if the program ended by itself, and exits in the
    phase "done".
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        me: Node,
        bounds: Bounds,
        timing: Timing,
        peers: Optional[Peers] = None,
    ) -> None:
        """Prepare to join; *peers* tells early which other agents have ended.

        *bucket* is not shared, and times out after a third of the lease; *prefix* ends with a slash.
        """
        super().__init__(daemon=True, name="member")
        bucket.hasten(timing.lease_s / 3)
        self.bucket, self.prefix, self.timing = bucket, prefix, timing
        self.requests: Dict[str, int] = {}  # by kind: put, fetch, swap, list
        self.error: Optional[Failure] = None  # of the last pass over the protocol
        self._lock = threading.Lock()
        self.over = threading.Event()
        self._woken = threading.Event()
        self._course = MemberProtocol(
            me, bounds, timing, time.monotonic, time.time, random.SystemRandom().random
        )
        self._peers = peers
        if peers is not None:
            peers.told = self._woken.set
            self._course.ended, self._course.port = peers.has_ended, peers.port
        self._does: Dict[str, Callable[[Ask], Any]] = {
            "put": lambda ask: bucket.put(prefix + ask.key, ask.content),
            "fetch": lambda ask: bucket.fetch(prefix + ask.key),
            "swap": lambda ask: bucket.swap(prefix + ask.key, ask.content, ask.etag),
            "list": lambda ask: [
                (found.key[len(prefix + ask.key) :], found.etag)
                for found in bucket.listing(prefix + ask.key)
            ],
            "meet": self._meet,
        }

    def _meet(self, ask: Ask) -> None:
        """Connect to the node whose heartbeats are written at the key; without its port, its lease has to be enough."""
        known = node_of(ask.key[len(NODES) :])
        found = self.bucket.get(self.prefix + ask.key)
        if self._peers is not None and known is not None and found is not None:
            port = json.loads(found.decode("ascii")).get("port", 0)
            self._peers.meet(known[0].id, known[0].host, port)

    def view(self) -> View:
        """Return what this node may do now."""
        with self._lock:
            return self._course.view()

    def ready(self, generation: int, further: bool = False) -> None:
        """Report that the program is not running and its files are saved; *generation* is that of the view.

        *further*: the generation that ran here last made progress, as its first node knows.
        """
        with self._lock:
            self._course.ready(generation, further)
        self._woken.set()

    def finish(self, generation: int, code: int, further: bool = False) -> None:
        """Report that the program of *generation* ended by itself with *code*, and its files are saved.

        Code 0 of rank 0 ends the job. Codes 75 and 143 start a new generation, unless several generations in a row
        made no progress. Any other code is a failure, which counts once all other nodes have sent a later heartbeat.
        """
        with self._lock:
            self._course.finish(generation, code, further)
        self._woken.set()

    def leave(self, why: str = "") -> None:
        """Report that this node will leave, and *why*; other nodes stop, and wait until it is `ready` or closed."""
        with self._lock:
            self._course.leave(why=why)
        self._woken.set()

    def overdue(self) -> None:
        """Report that this node has been here for as long as `timeout`: the leader ends the job."""
        with self._lock:
            self._course.overdue()
        self._woken.set()

    def close(self, seconds: float = 5.0) -> None:
        """Report that this node has left, if the store answers within *seconds*. The program must not be running."""
        self.over.set()
        self._woken.set()
        if self.is_alive():
            self.join(seconds)
        if not self.is_alive():
            try:
                self._drive(self._course.part())
            except Failure as error:  # the other nodes notice when the lease ends
                self.error = error

    def may_write(self, generation: int) -> bool:
        """Return whether *generation* may write now; only `commit` is safe against a change a moment later.

        Raise Failure if the store does not answer.
        """
        return bool(self._drive(fence.looked())[0].generation == generation)

    def commit(self, generation: int, note: str) -> bool:
        """Make *note* the valid save and return True; return False if a later generation has begun. Use a note once.

        Raise Failure when the store gives no answer: then it is unknown, and a second call says.
        """
        return bool(self._drive(fence.committed(generation, note)))

    def committed(self) -> str:
        """Return the name of the last valid save; "" if there is none."""
        return str(self._drive(fence.looked())[0].note)

    def run(self) -> None:
        if self._peers is not None:
            self._peers.start()
        self.over.wait(self._course.first_s())
        while not self.over.is_set():
            self._woken.clear()
            try:
                self._drive(self._course.step())
                self.error = None
                pause_s = self._course.pause_s()
            except Failure as error:  # the next pass may succeed, and `view` shows if the store is silent for too long
                self.error = error
                pause_s = self.timing.beat_s / 2
            self._woken.wait(pause_s)

    def _drive(self, work: Work) -> Any:
        """Perform the requests of *work*, and return its result. Other threads wait only while it computes."""
        reply: Any = None
        try:
            while True:
                with self._lock:
                    ask = work.send(reply)
                    self.requests[ask.verb] = self.requests.get(ask.verb, 0) + 1
                reply = self._does[ask.verb](ask)
        except StopIteration as end:  # a generator ends with this exception, which has its result
            return end.value
