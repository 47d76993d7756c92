"""Notes of how the nodes of a try have ended, for a client that the service itself does not tell, or not for long.

`ends/TASK/ATTEMPT/RANK` is a node's, `ends/TASK/ATTEMPT/batch` that of the whole try: see `batch`.
"""

import json
import socket
import time
from typing import Any, Dict, Mapping, Optional

from . import address
from .bucket import Bucket
from .place import Place

Note = Dict[str, Any]  # code, why (or null), node, began_s and ended_s since 1970


class Ends:
    """One writer of such a note: *who* is a rank or "batch"."""

    def __init__(self, bucket: Bucket, at: str, place: Place, who: str, node: str) -> None:
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


def of_node(bucket: Bucket, at: str, place: Place, env: Mapping[str, str]) -> Optional[Ends]:
    """Return None where nobody asks for notes (`RUNSPEC_ENDS`)."""
    if not env.get("RUNSPEC_ENDS"):
        return None
    return Ends(bucket, at, place, str(place.rank), name(env))


def name(env: Mapping[str, str]) -> str:
    """Return what the service calls this node, or else what it calls itself."""
    return address.name(env) or env.get("SLURMD_NODENAME") or socket.gethostname()
