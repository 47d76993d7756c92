"""Run the agent in a fork of the batch process, which saves starting Python and compiling the agent for each task."""

import os
import signal
import sys
from typing import List, Optional

from runspec_agent.__main__ import main
from runspec_agent.base.process import FORWARDED, Child, Signals, die_with_parent

JOB = ["-IS", "job"]
HELD = (*FORWARDED, signal.SIGCHLD)


def is_ours(words: List[str]) -> bool:
    """Return whether *words* would start the agent with this Python and zipapp."""
    if [*words[1:2], *words[3:]] != JOB:
        return False
    python = _found(words[0])
    if python is None or os.path.realpath(python) != os.path.realpath(sys.executable):
        return False
    return os.path.realpath(words[2]) == os.path.realpath(sys.argv[0])


def _found(program: str) -> Optional[str]:
    """Return the path at which the shell would find *program*."""
    if "/" in program:
        return program
    places = [os.path.join(p, program) for p in os.environ.get("PATH", os.defpath).split(":") if p]
    return next((path for path in places if os.access(path, os.X_OK)), None)


class Forked(Child):
    """A fork of this process in a session of its own, without the handlers of *signals*.

    It must have no other thread.
    """

    def __init__(self, signals: Signals) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        parent = os.getpid()
        # A signal that arrives during the fork is neither lost nor handled twice.
        old = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        self.pid = os.fork()
        if self.pid == 0:
            _agent(signals, parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def finished(self, status: int) -> None:
        self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _agent(signals: Signals, parent: int) -> None:
    """Run the agent as the command line would; never return."""
    code = 1
    try:
        os.setsid()
        die_with_parent()
        signals.leave()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
        if os.getppid() == parent:  # else the parent ended before prctl(2) took effect
            sys.argv[1:] = JOB[1:]
            code = main()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:  # noqa: BLE001 - as Python itself does at the end of a program
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
