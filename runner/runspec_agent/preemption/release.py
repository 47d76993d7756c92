"""Nodes of elastic jobs that a user has released: `released/INDEX` in the store of the run.

INDEX is the number of the node among the nodes of all tasks. The record stays until the node is asked for again, so
a node that starts meanwhile leaves at once.
"""

import threading
from typing import Optional

from runspec_agent.base.end_causes import AWAY
from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket


def is_released(bucket: Bucket, at: str, index: int) -> bool:
    """Return whether the node *index* of the run at *at* was released."""
    return bucket.get("{}released/{}".format(at, index)) is not None


class Release(threading.Thread):
    """Looks every *look_s* whether the node was released; `notice` says why it leaves, once it was."""

    def __init__(self, bucket: Bucket, at: str, index: int, look_s: float) -> None:
        super().__init__(daemon=True, name="release")
        self.notice: Optional[str] = None
        self._bucket, self._at, self._index, self._look_s = bucket, at, index, look_s
        self._over = threading.Event()

    def look(self) -> Optional[str]:
        """Return the notice, after a request if there was none. Raise Failure if the store does not answer."""
        if self.notice is None and is_released(self._bucket, self._at, self._index):
            self.notice = AWAY
        return self.notice

    def look_now(self) -> bool:
        """Return whether there is a notice; if the store does not answer, as far as is known."""
        try:
            return self.look() is not None
        except Failure:  # the next look finds it
            return False

    def run(self) -> None:
        while not self._over.wait(self._look_s) and not self.look_now():
            pass

    def finish(self) -> None:
        self._over.set()
