"""Tell the exit code of a program from one that its agent or launcher chose: another node told it to end, or was lost.

Exit codes alone cannot say so, because a program may exit with 75 or 143 by itself.
"""

import os
import time
from typing import Optional

from runspec_agent.base import files
from runspec_agent.base.job_env import LOST, STOPPED, Failure
from runspec_agent.base.process import Signals
from runspec_agent.rendezvous.participant import Participant

TOLD = "RUNSPEC_TOLD"  # the path of a file that a launcher writes if its exit code is not the program's
SETTLE_S = 1.0  # for a signal to reach the agent, if it has reached the program first


def take() -> Optional[str]:
    """Return the path of the file, or None without an agent; the program does not see the variable."""
    return os.environ.pop(TOLD, None)


def tell(
    path: Optional[str], participant: Participant, code: int, failure: Optional[Failure]
) -> None:
    """Write the file if *code*, perhaps that of *failure*, is not the program's own."""
    lost = (
        code == LOST
        and participant.failed() != LOST
        and (failure is not None or participant.words.rank > 0)
    )
    if path is not None and (lost or participant.stopping() is not None):
        files.write(path, b"")


def is_own(code: int, signals: Signals, path: Optional[str]) -> bool:
    """Return whether a program exited with *code* by itself. *path*: the file of its launcher, if it has one.

    Slurm sends SIGTERM to all processes of a job, so to the program perhaps a moment before the agent.
    """
    until = time.monotonic() + SETTLE_S
    while code == STOPPED and not signals.stopping and time.monotonic() < until:
        signals.wait(max(0.0, until - time.monotonic()))
    return not (signals.stopping or os.path.exists(path or ""))
