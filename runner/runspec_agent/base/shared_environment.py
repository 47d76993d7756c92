"""Build the environment of a job once, in a folder that all nodes share, for all its nodes and attempts and later jobs.

An environment cannot be moved, because its scripts contain its path. Therefore every builder builds in a folder of its
own, and the file `built` names the folder that is complete. link(2) creates that file, which succeeds once, also on
NFS. A half-built environment is never used, whatever happens to the lock, which only keeps nodes from building twice.
"""

import hashlib
import os
import platform
import socket
import sys
import sysconfig
import threading
import time
from typing import Any, Dict, Mapping, Optional

from runspec_agent.base import files, limits, requirements
from runspec_agent.base.job_env import USAGE, Failure

PAUSE_S = 0.5
BUILT, LOCK, FAILED = "built", "lock", "failed"


def ensure(record: Mapping[str, Any], folder: str, env: Dict[str, str]) -> None:
    """Put the environment of *record* first in *env*; build it below *folder*, which is its own, unless it is there.

    Raise Failure if it cannot be built, also if another node of the same run has failed meanwhile.
    """
    shared = os.path.join(folder, kind())
    os.makedirs(shared, exist_ok=True)
    wait = _Wait(shared, env.get("RUNSPEC_RUN", ""))
    while True:
        made = _built(shared)
        if made is None:
            wait.check()
            lock = Lock(shared)
            if lock.take():
                with lock:
                    wait.check()  # the last holder of the lock may have failed after the check above
                    made = _built(shared) or _build(record, shared, lock.token, env)
        if made is not None:
            requirements.use(record, made, env)
            return
        wait.pause()


def kind() -> str:
    """Return a name for this Python and this machine: environments of one name can be exchanged.

    An environment leads to the Python that made it, so its path counts, and packages are built for a C library.
    """
    facts = [sys.executable, sys.version, sysconfig.get_platform(), *platform.libc_ver()]
    version = ".".join(map(str, sys.version_info[:3]))
    digest = hashlib.sha256("\0".join(facts).encode("utf-8", "surrogateescape")).hexdigest()
    return "python-{}-{}-{}".format(version, sysconfig.get_platform(), digest[:8])


def _built(shared: str) -> Optional[str]:
    """Return the path of the complete environment, if there is one; forget one that somebody has deleted."""
    content = files.read(os.path.join(shared, BUILT))
    if content is None:
        return None
    made = os.path.join(shared, content.decode("ascii"), requirements.NAME)
    if os.path.isdir(made):
        return made
    files.remove(os.path.join(shared, BUILT))
    return None


def _build(
    record: Mapping[str, Any], shared: str, token: str, env: Mapping[str, str]
) -> Optional[str]:
    """Build the environment in the folder *token*, and return the path of the one that counts.

    Return None if another builder has taken this one for dead, and its environment is gone again.
    """
    built = os.path.join(shared, token)
    os.mkdir(built)
    try:
        requirements.make(record, built, env)
    except Failure as failure:
        made = _built(
            shared
        )  # another builder took the lock over, and may have removed files of this environment
        if made is not None or not os.path.isdir(built):
            files.remove_tree(built)
            return made
        files.remove_tree(built)
        run = env.get("RUNSPEC_RUN", "")
        noted = {"run": run, "why": str(failure), "token": token}
        files.write_record(_name_failure(shared, run), noted)
        raise
    os.sync()  # neither pip nor uv flushes what it writes, and a name must not outlive its content
    if not _create(os.path.join(shared, BUILT), token):
        files.remove_tree(built)
        return _built(shared)
    for name in os.listdir(
        shared
    ):  # what killed builders have left; only now, as one of them may have been about to end
        if name != token and os.path.isdir(os.path.join(shared, name)):
            files.remove_tree(os.path.join(shared, name))
    return os.path.join(built, requirements.NAME)


class Lock:
    """The right to build, in a file with a heartbeat; the clocks of two machines are not compared."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, LOCK)
        self.token = "{}-{}-{}".format(socket.gethostname(), os.getpid(), os.urandom(4).hex())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def take(self) -> bool:
        return _create(self.path, self._text(0))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._is_own():
            files.remove(self.path)

    def _beat(self) -> None:
        count = 0
        while not self._over.wait(limits.BUILD_BEAT_S) and self._is_own():
            count += 1
            try:
                files.write(self.path, self._text(count).encode("ascii"))
            except OSError:
                continue  # another node takes the lock at worst

    def _is_own(self) -> bool:
        content = files.read(self.path)
        return content is not None and content.decode("ascii").split()[0] == self.token

    def _text(self, count: int) -> str:
        return "{} {}".format(self.token, count)


class _Wait:
    """Waits while another node builds."""

    def __init__(self, folder: str, run: str) -> None:
        self.place, self.failure = folder, _name_failure(folder, run)
        self._failed = files.read(self.failure)
        self._seen, self._since = None, 0.0  # type: Optional[bytes], float
        self._told = False

    def check(self) -> None:
        """Raise Failure if another node of this run has failed to build since the wait began."""
        if files.read(self.failure) != self._failed:
            failed = files.read_record(self.failure)
            if failed is not None:
                raise Failure("another node of this job says: {}".format(failed["why"]), USAGE)

    def pause(self) -> None:
        """Wait a moment, and take the lock from a builder that has stopped beating."""
        path = os.path.join(self.place, LOCK)
        content, now = files.read(path), time.monotonic()
        if content != self._seen:
            self._seen, self._since = content, now
        elif content is not None and now - self._since > limits.BUILD_LEASE_S:
            self._tell("the node that builds it has stopped: {}".format(content.decode("ascii")))
            files.remove(path)
        if not self._told and content is not None:
            self._tell("waiting for another node, which builds the environment")
            self._told = True
        time.sleep(PAUSE_S)

    @staticmethod
    def _tell(text: str) -> None:
        print("runspec: {}".format(text))
        sys.stdout.flush()


def _name_failure(folder: str, run: str) -> str:
    """Return the path of the record of the last failure of *run*; no other run replaces it."""
    return os.path.join(folder, "{}-{}".format(FAILED, run))


def _create(path: str, content: str) -> bool:
    """Create the file *path* with *content*, and return True; return False if it exists.

    link(2) is atomic on NFS, and its outcome is the number of links, because a reply may get lost: open(2), O_EXCL.
    """
    part = "{}.{}.part".format(path, os.urandom(8).hex())
    files.write(part, content.encode("ascii"), durable=True)
    try:
        os.link(part, path)
    except FileExistsError:  # another node was faster; the file shows whose content it has
        pass
    created = os.stat(part).st_nlink == 2
    files.remove(part)
    return created
