"""Upload the log of an attempt to the store, because services keep only that of the last attempt, on the machine."""

import array
import fcntl
import os
import stat
import sys
import termios
import threading
import time
from typing import IO, Mapping, Optional

from runspec_agent.base import file_lock
from runspec_agent.base.job_env import Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.base import BLOCK, Bucket, Window
from runspec_agent.transfer.log_times import LOG, LogTimes

EVERY_S = 30.0
COPY_S = 2.0
SHARE = 20  # a long log is uploaded as a whole each time, so pauses are this many times longer than an upload


class Log(threading.Thread):
    """Upload the file at *path* to *key* while it grows, and at the end, each time with its index *times*, if any."""

    def __init__(
        self, bucket: Bucket, path: str, key: str, times: Optional[LogTimes] = None
    ) -> None:
        super().__init__(daemon=True)
        self.bucket, self.key, self.path, self.times = bucket, key, where(path), times
        self.over = threading.Event()
        self._one = threading.Lock()
        self._size = 0

    def run(self) -> None:
        pause_s = EVERY_S
        while not self.over.wait(pause_s):
            began = time.monotonic()
            try:
                self.once()
            except (OSError, Failure):  # the next pass, or the end, uploads it again
                pass
            pause_s = max(EVERY_S, SHARE * (time.monotonic() - began))

    def once(self) -> None:
        """Upload the file now, if it has grown."""
        with self._one:
            size = os.stat(self.path).st_size
            if size == self._size:
                return
            self._put(self.path, self.key, size)
            if self.times is not None:
                self.times.note()
                self._put_index(self.times.index)
            self._size = size

    def finish(self) -> None:
        """Upload the rest. Raise Failure or OSError if that fails."""
        self.over.set()
        self.once()

    def _put_index(self, index: str) -> None:
        if os.path.isfile(index):
            self._put(index, os.path.splitext(self.key)[0] + ".times", os.stat(index).st_size)

    def _put(self, path: str, key: str, size: int) -> None:
        import hashlib

        def opened() -> IO[bytes]:
            return open(path, "rb")

        digest = hashlib.sha256()
        with Window(opened, 0, size) as stream:
            for start in range(0, size, BLOCK):
                digest.update(stream.read(min(BLOCK, size - start)))
        self.bucket.put_file(key, opened, size, digest.hexdigest())


def key_of(at: str, place: TaskIdentity) -> str:
    """Return the key of the log of an attempt; *at* is the prefix of the run."""
    return "{}logs/{}/{}/{}.txt".format(at, *place[1:])


def wait_for_copy(path: str) -> None:
    """Wait until `job.log_copy`, if it reads what this process prints, has written all of it to *path*.

    It locks the file from before it reads until it has written. Another process may go on printing, so this takes
    COPY_S at most.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if not stat.S_ISFIFO(os.fstat(1).st_mode):
        return
    until, left = time.monotonic() + COPY_S, array.array("i", [1])
    with open(where(path), "ab") as stream:
        while left[0] and time.monotonic() < until:
            if file_lock.take(stream.fileno(), wait=False):
                fcntl.ioctl(1, termios.FIONREAD, left)
                file_lock.free(stream.fileno())
            if left[0]:
                time.sleep(0.002)


def where(path: str) -> str:
    """Return the file that `RUNSPEC_LOG` means: some services set it to a folder."""
    return os.path.join(path, LOG) if os.path.isdir(path) else path


def behind(env: Mapping[str, str]) -> bool:
    """Fork, and write both streams of the child to the log; return True in the child and False in the parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        return False
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    path = env.get("RUNSPEC_LOG")
    said = os.open(where(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) if path else nothing
    for handle, target in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(handle, target)
    return True
