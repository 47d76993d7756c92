"""The nodes of a gang end together: a service that looks at the main node alone would end the others with it."""

import threading
import time
from typing import Dict, Optional, Set, Tuple

from .bucket import Bucket
from .process import Pace, Signals
from .words import LOST, STOPPED, Failure

BEAT_S = 15.0
LEASE_S = 120.0  # a node whose beat has stood still for so long is gone
FIRST_S = 3600.0  # for a node to begin: its machine may start late


class Gang(threading.Thread):
    """One node's part: it beats while it lives, says how it ended, and the first waits for all."""

    def __init__(self, bucket: Bucket, prefix: str, rank: int, nodes: int) -> None:
        super().__init__(daemon=True)
        self.bucket, self.prefix, self.rank, self.nodes = bucket, prefix, rank, nodes
        self._over = threading.Event()
        self._beats = 0

    def run(self) -> None:
        while not self._over.is_set():
            self._beats += 1
            try:
                self.bucket.put(
                    "{}alive-{}".format(self.prefix, self.rank), str(self._beats).encode()
                )
            except Failure:  # the lease is longer than a beat
                pass
            self._over.wait(BEAT_S)

    def end(self, code: int, signals: Signals, wait: bool) -> int:
        """Say that this node has ended with *code*; on the first node, return the code of all.

        *wait*: for as long as the others live, and their failures count; else they are given a
        moment to save what they wrote.
        """
        if self.rank > 0:
            self.bucket.put("{}ended-{}".format(self.prefix, self.rank), str(code).encode())
            self._over.set()
            return code
        self._over.set()
        if code:
            return code
        return self._others(signals, FIRST_S if wait else 20.0, wait)

    def _others(self, signals: Signals, first_s: float, wait: bool) -> int:
        began, pace = time.monotonic(), Pace(0.25)
        seen: Dict[str, Tuple[str, float]] = {}
        while True:
            ended, gone = self._look(seen, began, first_s)
            failed = self._failed(ended) if wait else None
            if failed is not None:
                return failed
            if len(ended) == self.nodes - 1 or (gone and not wait):
                return 0
            if gone:
                return LOST
            if any(signals.wait(pace.pause_s())):
                return STOPPED

    def _look(
        self, seen: Dict[str, Tuple[str, float]], began: float, first_s: float
    ) -> Tuple[Set[int], bool]:
        """Return who has ended, and whether somebody is gone."""
        now, ended = time.monotonic(), set()
        for found in self.bucket.listing(self.prefix):
            name = found.key[len(self.prefix) :]
            if name.startswith("ended-"):
                ended.add(int(name[len("ended-") :]))
            elif seen.get(name, ("", 0.0))[0] != found.etag:
                seen[name] = (found.etag, now)
        for rank in set(range(1, self.nodes)) - ended:
            last = seen.get("alive-{}".format(rank))
            if now - (last[1] if last else began) > (LEASE_S if last else first_s):
                return ended, True
        return ended, False

    def _failed(self, ended: Set[int]) -> Optional[int]:
        for rank in sorted(ended):
            code = int(self.bucket.get("{}ended-{}".format(self.prefix, rank)) or b"0")
            if code:
                return code
        return None
