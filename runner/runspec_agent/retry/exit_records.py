"""Notes of how the nodes of a try have ended, for a client that the service itself does not tell, or not for long.

`ends/TASK/ATTEMPT/RANK` is a node's, `ends/TASK/ATTEMPT/batch` that of the whole try, and `ends/TASK/ATTEMPT/told` what
the batch script tells all nodes: see `batch`.
"""

import json
import os
import socket
import threading
import time
from typing import Any, Dict, List, Mapping, Optional

from runspec_agent.base.job_env import Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.env import address
from runspec_agent.store.base import Bucket

TOLD = "told"  # the numbers of the signals, in their order
LOOK_S = (
    2.0  # between two looks at that, for up to NODES; with more of them, each looks more seldom
)
NODES = 100
Note = Dict[str, Any]  # code, why (or null), node, began_s and ended_s since 1970


class ExitRecords:
    """One writer of such a note: *who* is a rank or "batch"."""

    def __init__(self, bucket: Bucket, at: str, place: TaskIdentity, who: str, node: str) -> None:
        self.bucket, self.who, self.node = bucket, who, node
        self.folder = "{}ends/{}/{}/".format(at, place.task, place.attempt)
        self.began_s = time.time()

    def note(self, code: int, why: Optional[str] = None, **more: Any) -> None:
        """Say how it has ended. Raises Failure."""
        found = {"code": code, "why": why, "node": self.node, "began_s": round(self.began_s, 3)}
        found.update(more, ended_s=round(time.time(), 3))
        self.bucket.put(self.folder + self.who, json.dumps(found, sort_keys=True).encode("ascii"))

    def read(self, who: str) -> Optional[Note]:
        """Return another's note of the same try, once there is one."""
        content = self.bucket.get(self.folder + who)
        found: Optional[Note] = None if content is None else json.loads(content.decode("ascii"))
        return found

    def tell(self, number: int) -> None:
        """Have all agents of this try do as if they had been sent this signal."""
        self.bucket.put(self.folder + TOLD, json.dumps([*self.told(), number]).encode("ascii"))

    def told(self) -> List[int]:
        content = self.bucket.get(self.folder + TOLD)
        found: List[int] = [] if content is None else json.loads(content.decode("ascii"))
        return found


class StopListener(threading.Thread):
    """Hears what all nodes are told, and sends it to this process, where signals are looked after."""

    def __init__(self, ends: ExitRecords, nodes: int) -> None:
        super().__init__(daemon=True)
        self._ends, self._pause_s = ends, LOOK_S * max(1.0, nodes / NODES)
        self._over = threading.Event()

    def run(self) -> None:
        heard = 0
        while not self._over.wait(self._pause_s):
            try:
                told = self._ends.told()
            except (Failure, ValueError):  # the next look says it
                continue
            for number in told[heard:]:
                os.kill(os.getpid(), number)
            heard = len(told)

    def finish(self) -> None:
        self._over.set()
        self.join()


def of_node(
    bucket: Bucket, at: str, place: TaskIdentity, env: Mapping[str, str]
) -> Optional[ExitRecords]:
    """Return None where nobody asks for notes (`RUNSPEC_ENDS`)."""
    if not env.get("RUNSPEC_ENDS"):
        return None
    return ExitRecords(bucket, at, place, str(place.rank), name(env))


def name(env: Mapping[str, str]) -> str:
    """Return what the service calls this node, or else what it calls itself."""
    return address.name(env) or env.get("SLURMD_NODENAME") or socket.gethostname()
