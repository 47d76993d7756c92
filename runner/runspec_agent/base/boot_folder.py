"""The temporary folder that `boot` made for this process. A later job removes it if this process is killed."""

import contextlib
import signal
from types import FrameType
from typing import Iterator, MutableMapping, Optional

from runspec_agent.base import files

HELD = (signal.SIGTERM, signal.SIGINT)  # blocked by boot


@contextlib.contextmanager
def folder(env: MutableMapping[str, str]) -> Iterator[None]:
    """Remove the folder that *env* names, if any, at the end. A signal ends this process as any other error would.

    Until then, an open file of this process holds a lock on the folder: see `boot`.
    """
    path = env.pop("RUNSPEC_BOOT", None)
    if path is None:
        yield
        return
    try:
        for number in HELD:
            signal.signal(number, _leave)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        files.remove_tree(path)


def _leave(number: int, _: Optional[FrameType]) -> None:
    raise SystemExit(128 + number)
