"""Samples a node beside its agent, and uploads what was found: it never fails or delays the job.

The modules that measure are imported only after a second, since a zipapp compiles them at each start.
"""

import threading
import time
from typing import Any, Mapping

from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket

FIRST_S = 1.0
UPLOAD_S = (60.0, 900.0)  # the least and the most time between two uploads
SHARE = 20  # between them, a part of the time that the job has run
REQUEST_S = 10.0  # for a request, which is sent once
LEAVE_S = 3.0  # for the last upload, at the end


class Usage(threading.Thread):
    """Writes the usage of the node called *name* to *key*; *folder* is on the disk that its program uses."""

    def __init__(
        self, bucket: Bucket, key: str, name: str, env: Mapping[str, str], folder: str
    ) -> None:
        super().__init__(daemon=True)
        self.bucket, self.key, self.name_of_node = bucket.apart(), key, name
        self.env, self.folder = dict(env), folder
        self.over = threading.Event()
        self._began_s = time.monotonic()
        self._kept_s = float("-inf")

    def run(self) -> None:
        if self.over.wait(FIRST_S):
            return
        try:
            self.bucket.hasten(REQUEST_S)
            self._sample()
        except (
            OSError,
            ValueError,
            LookupError,
            Failure,
        ):  # what cannot be measured is not measured
            pass

    def _sample(self) -> None:
        from runspec_agent.usage import meter

        own = meter.OwnUsage()
        node = meter.Meter(
            self.folder, self.env, self.name_of_node, time.monotonic() - self._began_s
        )
        limit = own.limit()
        if limit is not None:
            node.series.about["memory_bytes"] = min(limit, meter.memory_bytes())
        node.series.about["of"] = "processes" if own.group is None else "container"
        try:
            while True:
                node.sample(*own.read())
                self._keep(node.series, last=False)
                if self.over.wait(node.pause_s()):
                    break
            node.series.raise_memory(meter.largest_child())
            self._keep(node.series, last=True)
        finally:
            node.finish()

    def _keep(self, series: Any, last: bool) -> None:
        """Upload the record if it is time; if that fails, a later upload has the same and more."""
        now = time.monotonic()
        least, most = UPLOAD_S
        pause_s = min(most, max(least, (now - self._began_s) / SHARE))
        if last or now - self._kept_s >= pause_s:
            self._kept_s = now
            try:
                self.bucket.put(self.key, series.document())
            except (OSError, Failure):  # usage is not worth failing a job
                pass

    def finish(self) -> None:
        """End sampling, and wait a little for the last upload."""
        self.over.set()
        if self.is_alive():
            self.join(LEAVE_S)


def key(at: str, task: int, attempt: int, rank: int) -> str:
    """Return where the usage of a node is kept.

    >>> key("runs/r/", 2, 1, 0)
    'runs/r/usage/2/1/0'
    """
    return "{}usage/{}/{}/{}".format(at, task, attempt, rank)
