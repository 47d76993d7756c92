"""The exit barrier: all nodes of a gang end together, because the service ends the others with the main node."""

import threading
import time
from typing import Dict, List, Optional, Set, Tuple

from runspec_agent.base import limits
from runspec_agent.base.failure import UNSAVED_CODE
from runspec_agent.base.job_env import LOST, STOPPED, Failure, NoSpace
from runspec_agent.base.process import STOPS, Pace, Signals
from runspec_agent.store.base import Bucket

LOOK_S = 1.0  # at first; later a node looks as often as it sends heartbeats
OF_OTHERS = (LOST, STOPPED)  # exit codes of a node that another node has ended
TOLD = " told"  # after an exit code that is not the program's own
FULL = " full"  # after one of a node whose outputs are not saved, since the store is full


class ExitBarrier(threading.Thread):
    """One node's part in the barrier: it sends heartbeats and its exit code, and the first node waits for all.

    With *looks*, `failed_peer` returns another node soon after it has failed, also while the program of this one runs.
    """

    def __init__(
        self, bucket: Bucket, prefix: str, rank: int, nodes: int, looks: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self.bucket, self.prefix, self.rank, self.nodes = bucket, prefix, rank, nodes
        self.looks = looks
        self.over = threading.Event()
        self.woken = threading.Event()
        self._taking = threading.Lock()
        self._beats = 0
        self._codes: Dict[int, int] = {}
        self._told: Set[int] = set()  # ranks whose code is not that of their program
        self.own = True  # whether the code that `end` returned is that of a program
        self.full = (
            False  # whether the store is full, for this node or the one whose code `end` returned
        )
        self._filled: Set[int] = set()  # ranks that have filled the store, as they reported
        self.seen: Dict[str, Tuple[str, float]] = {}
        self._answered = 0.0
        self._silent = False

    def run(self) -> None:
        """Send heartbeats, and look for another node that has failed, which most do early."""
        pace, next_beat = Pace(LOOK_S, limits.STORE_BEAT_S), 0.0
        while not self.over.is_set():
            now = time.monotonic()
            try:
                if now >= next_beat:
                    next_beat = now + limits.STORE_BEAT_S
                    self.beat()
                if self.looks:
                    self.take_in()
            except Failure:  # the lease is longer than the interval of heartbeats
                pass
            self.over.wait(pace.pause_s() if self.looks else limits.STORE_BEAT_S)

    def beat(self) -> None:
        self._beats += 1
        key = "{}alive-{}".format(self.prefix, self.rank)
        try:
            self.bucket.put(key, str(self._beats).encode())
        except NoSpace:
            self.bucket.put(key, b"")  # a new file has a new version, also an empty one

    def end(self, code: int, signals: Signals, wait: bool, is_own: bool = True) -> int:
        """Record that this node has ended with *code*; on the first node, return the code of all.

        With *wait*, wait as long as the other nodes live, and their failures count; a lost node raises Failure LOST.
        Otherwise, a launcher has ended the program on all nodes: wait for the time in which the other nodes may save.
        *is_own*: the program itself exited with *code*, and was not stopped because another node had failed, whose code
        counts then.
        """
        self.own = is_own
        if self.rank > 0:
            self.tell(code, is_own)
        self.over.set()
        if self.rank > 0:
            return code
        if code and not wait:
            return self._settled(code, signals)
        if code and (is_own or self.failed_peer() is None):
            return code
        return self._others(signals, wait)

    def tell(self, code: int, is_own: bool = True) -> None:
        """Write the exit code of this node, for the first one; into a name, if the store is full."""
        said = "{}{}{}".format(code, "" if is_own else TOLD, FULL if self.full else "")
        key = "{}ended-{}".format(self.prefix, self.rank)
        try:
            self.bucket.put(key, said.encode())
        except NoSpace:
            self.bucket.put("{}-{}".format(key, said), b"")

    def failed(self) -> Optional[int]:
        """Return the exit code of a node that has failed already, or None."""
        self.take_in()
        peer = self.failed_peer()
        return None if peer is None else self._codes[peer]

    def failed_peer(self) -> Optional[int]:
        """Return the rank of a node that is known to have failed, or None, without asking the store."""
        return next((rank for rank in sorted(self._codes) if self._codes[rank]), None)

    def _others(self, signals: Signals, wait: bool) -> int:
        began, pace = time.monotonic(), Pace(0.25, limits.STORE_BEAT_S)
        self._answered = began
        while True:
            self.check()
            failed = self.failed_peer()
            if wait and failed is not None:
                return self._take(failed)
            gone = self.lost_node(began, limits.STORE_MEET_S if wait else limits.STORE_MOMENT_S)
            if gone is not None and wait and self._is_silenced():
                self.own, self.full = False, True
                return UNSAVED_CODE
            if gone is not None and wait:
                raise Failure("node {} has sent no heartbeat: it is lost".format(gone), LOST)
            if gone is not None or len(self._codes) == self.nodes - 1:
                return 0
            if any(number in STOPS for number in signals.wait(pace.pause_s())):
                self.own = False
                return STOPPED

    def _settled(self, code: int, signals: Signals) -> int:
        """Return *code* of a launcher, after a moment in which the other nodes record how they have ended.

        Another node may have ended the launcher: it reached its timeout, which may look like a failure of its ranks,
        or its agent was killed, which its parent process records. Then the code of that node counts.
        """
        until, pace = time.monotonic() + limits.STORE_SETTLE_S, Pace(0.25, LOOK_S)
        while time.monotonic() < until and not (signals.stopping or self._all_ended()):
            signals.wait(pace.pause_s())
        ended_by_another = not self.own and code in OF_OTHERS
        for rank, other in sorted(self._codes.items()):
            timed_out = rank in self._told and other not in (0, *OF_OTHERS)
            failed = rank not in self._told and other != 0
            if not signals.stopping and (timed_out or (ended_by_another and failed)):
                return self._take(rank)
        return code

    def _take(self, rank: int) -> int:
        """Return the exit code of another node, which is that of all."""
        self.own = rank not in self._told
        self.full = self.full or rank in self._filled
        return self._codes[rank]

    def _all_ended(self) -> bool:
        """Return whether all other nodes have ended, or the store does not say."""
        try:
            self.take_in()
        except Failure:  # without the store, nobody can be waited for
            return True
        return len(self._codes) == self.nodes - 1

    def _is_silenced(self) -> bool:
        """Return whether the store is so full that no node can send a heartbeat."""
        try:
            self.beat()
        except NoSpace:
            return True
        except Failure:  # any other failure may pass: the store is not known to be full
            pass
        return False

    def check(self) -> None:
        """Read the heartbeats and exit codes. Raise Failure if the store is silent for too long."""
        try:
            self.take_in()
        except Failure:
            if time.monotonic() - self._answered > limits.STORE_LEASE_S:
                raise
            self._silent = True

    def take_in(self) -> None:
        """Read what is new of the other nodes. Both threads of a node may call this; an exit code is read once."""
        with self._taking:
            self._take_in()

    def _take_in(self) -> None:
        entries = list(self.bucket.listing(self.prefix))
        self._answered = now = time.monotonic()
        if self._silent:  # no node could send a heartbeat: all leases start again
            self.seen = {name: (etag, now) for name, (etag, _) in self.seen.items()}
            self._silent = False
        for entry in entries:
            name = entry.key[len(self.prefix) :]
            word, _, rest = name.partition("-")
            number, _, said = rest.partition("-")
            if word == "ended" and int(number) not in self._codes:
                said = said or (self.bucket.get(entry.key) or b"0").decode()
                self._codes[int(number)] = int(said.partition(" ")[0])
                if TOLD in said:
                    self._told.add(int(number))
                if FULL in said:
                    self._filled.add(int(number))
            elif word == "alive" and self.seen.get(name, ("", 0.0))[0] != entry.etag:
                self.seen[name] = (entry.etag, now)

    def lost_node(self, began: float, first_s: float) -> Optional[int]:
        """Return a node that has sent no heartbeat for its lease or did not begin in time, or None."""
        for rank in self._others_ranks():
            last = self._last_seen(rank)
            waited_s = self._answered - (last or began)
            if rank not in self._codes and waited_s > (limits.STORE_LEASE_S if last else first_s):
                return rank
        return None

    def _others_ranks(self) -> List[int]:
        return [rank for rank in range(self.nodes) if rank != self.rank]

    def _last_seen(self, rank: int) -> float:
        """Return when its heartbeat last changed; 0.0 if there was none."""
        return self.seen.get("alive-{}".format(rank), ("", 0.0))[1]
