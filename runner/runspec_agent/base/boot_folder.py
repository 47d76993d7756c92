"""The temporary folder that `boot` made for this process. A later job removes it if this process is killed."""

import contextlib
import os
import signal
from types import FrameType
from typing import Iterator, MutableMapping, Optional

from runspec_agent.base import files

HELD = (signal.SIGTERM, signal.SIGINT)  # blocked by boot


@contextlib.contextmanager
def folder(env: MutableMapping[str, str]) -> Iterator[None]:
    """Remove the folder that *env* names, if any, at the end, and if SIGTERM or SIGINT ends this process.

    Python drops an exception of a handler that is raised in a finalizer or a callback of a weak reference, and the
    import of any module calls such a callback. Therefore the handler ends the process itself. Until the end, an open
    file of this process holds a lock on the folder: see `boot`.
    """
    path = env.pop("RUNSPEC_BOOT", None)
    if path is None:
        yield
        return

    def leave(number: int, _: Optional[FrameType]) -> None:
        files.remove_tree(path)
        os._exit(128 + number)

    try:
        for number in HELD:
            signal.signal(number, leave)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        files.remove_tree(path)
