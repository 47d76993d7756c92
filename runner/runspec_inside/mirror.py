"""A folder that the nodes of a job share through the object store, where they have no disk in common.

Each node writes files with its own number in their names, and everybody reads all: see `meet`.
"""

import os
import threading
from typing import Dict, Set, Tuple

from . import files
from .bucket import Bucket
from .process import Pace
from .words import Failure

BEATS = "alive-"  # of a heartbeat only the change counts: the version of the object will do


class Mirror(threading.Thread):
    """Makes *folder* and *prefix* equal, again and again: one list a pass, one request for what has changed."""

    def __init__(self, bucket: Bucket, folder: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.bucket = bucket
        self.folder = folder
        self.prefix = prefix
        self._over = threading.Event()
        self._ours: Set[str] = set()
        self._pushed: Dict[str, Tuple[int, int]] = {}
        self._pulled: Dict[str, str] = {}

    def run(self) -> None:
        pace = Pace(0.25)
        while not self._over.wait(pace.pause_s()):
            self._pass()

    def finish(self) -> None:
        """Stop, after what this node had to say has been said."""
        self._over.set()
        self.join()
        self._pass()

    def _pass(self) -> None:
        try:
            self._push()
            self._pull()
        except Failure:  # the leases tell who cannot be heard from
            pass

    def _push(self) -> None:
        for folder, _, names in os.walk(self.folder):
            for name in sorted(names):
                path = os.path.join(folder, name)
                key = os.path.relpath(path, self.folder)
                if name.endswith(".part") or key in self._pulled:
                    continue
                found = os.stat(path)
                version = (found.st_mtime_ns, found.st_size)
                if self._pushed.get(key) != version:
                    content = files.read(path)
                    if content is not None:
                        self.bucket.put(self.prefix + key, content)
                        self._ours.add(key)
                        self._pushed[key] = version

    def _pull(self) -> None:
        for found in self.bucket.listing(self.prefix):
            key = found.key[len(self.prefix) :]
            if key in self._ours or self._pulled.get(key) == found.etag:
                continue
            beat = os.path.basename(key).startswith(BEATS)
            content = found.etag.encode() if beat else self.bucket.get(found.key)
            if content is None:
                continue
            path = os.path.join(self.folder, key)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            self._pulled[key] = found.etag
            files.write(path, content)
