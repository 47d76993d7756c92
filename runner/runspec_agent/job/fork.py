"""A function as a child process, without the time and memory that another Python would need."""

import os
import signal
import sys
from typing import Callable

from runspec_agent.base.process import FORWARDED, Child, Signals, die_with_parent

HELD = (*FORWARDED, signal.SIGCHLD)


class Forked(Child):
    """A fork of this process in a session of its own, without the handlers of *signals*; it exits with *work*'s result.

    This process must have no other thread.
    """

    def __init__(self, signals: Signals, work: Callable[[], int]) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        parent = os.getpid()
        # A signal that arrives during the fork is neither lost nor handled twice.
        old = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        self.pid = os.fork()
        if self.pid == 0:
            _do(signals, parent, work)
        signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def finished(self, status: int) -> None:
        self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _do(signals: Signals, parent: int, work: Callable[[], int]) -> None:
    """Do *work* as the command line would; never return."""
    code = 1
    try:
        os.setsid()
        die_with_parent()
        signals.leave()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
        if os.getppid() == parent:  # else the parent ended before prctl(2) took effect
            code = work()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:  # noqa: BLE001 - as Python itself does at the end of a program
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
