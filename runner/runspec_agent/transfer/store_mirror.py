"""Mirror a folder through the object store to all nodes of a job, which share no disk.

Each node writes files with its own number in their names, and every node reads all of them: see `rendezvous`.
"""

import os
import threading
from typing import Dict, Set, Tuple

from runspec_agent.base import files
from runspec_agent.base.job_env import Failure
from runspec_agent.base.process import Pace
from runspec_agent.store.base import Bucket, Object

LOOK_S = 5.0  # at most between two passes, for a job that has run for long
BEATS = "alive-"  # of a heartbeat only the change counts: the version of the object is enough
ENDS = (
    "done-",
    "end-",
)  # a node that sees one of these reads the remaining files once: see `file_rsh`


class Mirror(threading.Thread):
    """Synchronize *folder* and *prefix* continuously, with one list per pass and one request for each changed file."""

    def __init__(self, bucket: Bucket, folder: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.bucket = bucket
        self.folder = folder
        self.prefix = prefix
        self.over = threading.Event()
        self._ours: Set[str] = set()
        self.pushed: Dict[str, Tuple[int, int]] = {}
        self._pulled: Dict[str, str] = {}

    def run(self) -> None:
        pace = Pace(0.25, LOOK_S)
        while not self.over.wait(pace.pause_s()):
            self.synchronize()

    def finish(self) -> None:
        """Stop, after the files of this node have been uploaded."""
        self.over.set()
        self.join()
        self.synchronize()

    def synchronize(self) -> None:
        try:
            self.push()
            self.pull()
        except (OSError, Failure):  # heartbeats show which nodes are lost
            pass

    def push(self) -> None:
        listed = [
            os.path.relpath(os.path.join(folder, name), self.folder)
            for folder, _, names in os.walk(self.folder)
            for name in names
        ]
        for key in sorted(listed, key=_order):
            if not key.endswith(".part") and key not in self._pulled:
                self._push_one(key)

    def _push_one(self, key: str) -> None:
        path = os.path.join(self.folder, key)
        try:
            info = os.stat(path)
        except FileNotFoundError:  # the file has been removed meanwhile
            return
        version = (info.st_mtime_ns, info.st_size)
        content = None if self.pushed.get(key) == version else files.read(path)
        if content is not None:
            self._ours.add(key)
            self.bucket.put(self.prefix + key, content)
            self.pushed[key] = version

    def pull(self) -> None:
        objects = {o.key[len(self.prefix) :]: o for o in self.bucket.listing(self.prefix)}
        for key in sorted(objects, key=_order):
            if key not in self._ours and self._pulled.get(key) != objects[key].etag:
                self._pull_one(key, objects[key])

    def _pull_one(self, key: str, listed: Object) -> None:
        beat = os.path.basename(key).startswith(BEATS)
        content = listed.etag.encode() if beat else self.bucket.get(listed.key)
        if content is None:
            return
        path = os.path.join(self.folder, key)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._pulled.setdefault(key, "")  # from now on it belongs to another node
        files.write(path, content)
        self._pulled[key] = listed.etag


def _order(key: str) -> Tuple[bool, str]:
    return os.path.basename(key).startswith(ENDS), key
