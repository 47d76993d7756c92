"""The folder that `boot` has made for this process, which takes it away. The next boot does so for a killed one."""

import contextlib
import signal
from types import FrameType
from typing import Iterator, MutableMapping, Optional

from runspec_agent.base import files

HELD = (signal.SIGTERM, signal.SIGINT)  # as boot has left them: blocked


@contextlib.contextmanager
def folder(env: MutableMapping[str, str]) -> Iterator[None]:
    """Take the folder away in the end, where *env* names one. A signal ends this process as any other error would.

    A lock on it is held by an open file of this process until then: see `boot`.
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
