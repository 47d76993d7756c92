"""Note each second how long the log of a node is, so that it is known when a line was printed.

The index has a line for each second in which the log grew: its length in bytes, and the middle of that second in
seconds since 1970. If the store is a folder that has the log `runs/RUN/logs/TASK-NODE.txt`, the index is
`TASK-NODE.times` beside it, for all attempts. If the service keeps the log of an attempt in a folder of the task, the
index is a file of the working directory there, from which `log_uploader` copies it to the store.
"""

import os
import threading
import time
from typing import Mapping, Optional

from runspec_agent.store.base import Bucket
from runspec_agent.store.folder import FolderBucket

EVERY_S = 1.0
LAST_BYTES = 64  # the last bytes of the index, which hold its last line
LOG = "stdout.txt"  # in a folder of a service, and its index there
# A task may write to its working directory, and to no other folder of the service's.
INDEX = os.path.join("wd", "stdout.times")


class LogTimes(threading.Thread):
    """Note the length of the file *log* while it grows, and at the end."""

    def __init__(self, log: str, index: str, mode: int = 0o600) -> None:
        super().__init__(daemon=True)
        self.log, self.index, self.mode = log, index, mode
        self.over = threading.Event()
        self._one = threading.Lock()
        self._length = last_length(index)
        self._looked_s = time.time()

    def run(self) -> None:
        while not self.over.wait(EVERY_S):
            self.note()

    def note(self) -> None:
        """Write a line if the log has grown; a full disk ends nothing."""
        with self._one:
            before_s, self._looked_s = self._looked_s, time.time()
            try:
                length = os.stat(self.log).st_size
                if length != self._length:
                    middle_s = (before_s + self._looked_s) / 2
                    append(
                        self.index,
                        "{} {:.1f}\n".format(length, middle_s).encode("ascii"),
                        self.mode,
                    )
                    self._length = length
            except OSError:
                pass

    def finish(self) -> None:
        """Note the length at the end."""
        self.over.set()
        self.note()


def start(bucket: Bucket, env: Mapping[str, str]) -> Optional[LogTimes]:
    """Return what notes the length of this node's log, and has begun to; None if there is no log of it."""
    watcher = of_service(env) if env.get("RUNSPEC_LOG") else of_store(bucket, env)
    if watcher is not None:
        watcher.start()
    return watcher


def of_service(env: Mapping[str, str]) -> Optional[LogTimes]:
    """Return the index of a log of this attempt, without what an earlier one left; the service's agent reads it."""
    folder = env["RUNSPEC_LOG"]
    index = os.path.join(folder, INDEX)
    if not os.path.isdir(os.path.dirname(index)):
        return None
    if os.path.exists(index):
        os.unlink(index)
    return LogTimes(os.path.join(folder, LOG), index, 0o644)


def of_store(bucket: Bucket, env: Mapping[str, str]) -> Optional[LogTimes]:
    if not isinstance(bucket, FolderBucket):
        return None
    task, rank = env.get("RUNSPEC_TASK") or "0", env.get("RUNSPEC_RANK") or "0"
    path = bucket.path_of("runs/{}/logs/{}-{}".format(env["RUNSPEC_RUN"], task, rank))
    return LogTimes(path + ".txt", path + ".times") if os.path.isfile(path + ".txt") else None


def last_length(index: str) -> int:
    """Return the length that an earlier attempt noted last, or 0."""
    try:
        with open(index, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - LAST_BYTES))
            return int(stream.read().split(b"\n")[-2].split()[0])
    except (OSError, ValueError, IndexError):
        # An attempt that printed nothing leaves an empty index, or none.
        return 0


def append(path: str, line: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)
