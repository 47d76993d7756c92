"""Records of how the nodes of an attempt ended, for clients that cannot get this from the service, or not for long.

`ends/TASK/ATTEMPT/RANK` is the record of a node, `ends/TASK/ATTEMPT/batch` that of the whole attempt, and
`ends/TASK/ATTEMPT/told` has the signals that the batch script sends to all nodes: see `slurm_batch`. In a full store,
these are the empty files `RANK.CODE`, `batch.CODE` and `told.NUMBER`.
"""

import json
import os
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from runspec_agent.base.job_env import Failure, NoSpace
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.env import address
from runspec_agent.preemption.limit_signal import REMIND
from runspec_agent.store.base import Bucket

WHY_FULL = "the store was full, so that its exit record has no more than the code"
TOLD = "told"  # the numbers of the signals, in order
LOOK_S = (
    2.0  # between two looks at that, for up to NODES; with more of them, each looks more seldom
)
NODES = 100
Note = Dict[str, Any]  # code, why (or null), node, began_s and ended_s since 1970, perhaps setup_s


class ExitRecords:
    """The writer of one record; *who* is a rank or "batch"."""

    def __init__(
        self, bucket: Bucket, at: str, identity: TaskIdentity, who: str, node: str
    ) -> None:
        self.bucket, self.who, self.node = bucket, who, node
        self.folder = "{}ends/{}/{}/".format(at, identity.task, identity.attempt)
        self.began_s = time.time()

    def note(self, code: int, why: Optional[str] = None, **more: Any) -> None:
        """Write the exit code and reason. Raise Failure if the store refuses."""
        note = {"code": code, "why": why, "node": self.node, "began_s": round(self.began_s, 3)}
        note.update(more, ended_s=round(time.time(), 3))
        text = json.dumps(note, sort_keys=True).encode("ascii")
        try:
            self.bucket.put(self.folder + self.who, text)
        except NoSpace:
            self.bucket.put("{}{}.{}".format(self.folder, self.who, code), b"")

    def read(self, who: str) -> Optional[Note]:
        """Return the record of another writer of the same attempt, or None."""
        content = self.bucket.get(self.folder + who)
        if content is not None:
            note: Note = json.loads(content.decode("ascii"))
            return note
        codes = self._numbers(who)
        return {"code": codes[-1], "why": WHY_FULL} if codes else None

    def _numbers(self, who: str) -> List[int]:
        """Return the numbers in the names that stand for the file of *who* in a full store."""
        begin = "{}{}.".format(self.folder, who)
        return [int(entry.key[len(begin) :]) for entry in self.bucket.listing(begin)]

    def tell(self, number: int) -> None:
        """Send a signal to all agents of this attempt."""
        text = json.dumps([*self.signals(), number]).encode("ascii")
        try:
            self.bucket.put(self.folder + TOLD, text)
        except NoSpace:
            self.bucket.put("{}{}.{}".format(self.folder, TOLD, number), b"")

    def signals(self) -> List[int]:
        content = self.bucket.get(self.folder + TOLD)
        numbers: List[int] = [] if content is None else json.loads(content.decode("ascii"))
        return numbers or self._numbers(TOLD)


class StopListener(threading.Thread):
    """Poll for signals to all nodes, and send them to this process, which handles them as usual.

    *remind* sends the program that of the spec.
    """

    def __init__(self, ends: ExitRecords, nodes: int, remind: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._remind = remind
        self._ends, self._pause_s = ends, LOOK_S * max(1.0, nodes / NODES)
        self._over = threading.Event()

    def run(self) -> None:
        heard = 0
        while not self._over.wait(self._pause_s):
            try:
                signals = self._ends.signals()
            except (Failure, ValueError):  # the next poll finds it
                continue
            for number in signals[heard:]:
                if number == REMIND:
                    self._remind()
                else:
                    os.kill(os.getpid(), number)
            heard = len(signals)

    def finish(self) -> None:
        self._over.set()
        self.join()


def of_node(
    bucket: Bucket, at: str, identity: TaskIdentity, env: Mapping[str, str]
) -> Optional[ExitRecords]:
    """Return the writer for this node, or None if no records are wanted (no `RUNSPEC_ENDS`)."""
    if not env.get("RUNSPEC_ENDS"):
        return None
    return ExitRecords(bucket, at, identity, str(identity.rank), name(env))


def name(env: Mapping[str, str]) -> str:
    """Return the service's name of this node, or its host name."""
    return address.name(env) or env.get("SLURMD_NODENAME") or socket.gethostname()
