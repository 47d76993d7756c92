"""Run the agent in a fork of the batch process, which saves starting Python and compiling the agent for each task."""

import os
import sys
from typing import List, Optional

from runspec_agent.__main__ import main
from runspec_agent.base.process import Signals
from runspec_agent.job.fork import Forked

JOB = ["-IS", "job"]


def is_ours(argv: List[str]) -> bool:
    """Return whether *argv* would start the agent with this Python and zipapp."""
    if [*argv[1:2], *argv[3:]] != JOB:
        return False
    python = _find_program(argv[0])
    if python is None or os.path.realpath(python) != os.path.realpath(sys.executable):
        return False
    return os.path.realpath(argv[2]) == os.path.realpath(sys.argv[0])


def _find_program(program: str) -> Optional[str]:
    """Return the path at which the shell would find *program*."""
    if "/" in program:
        return program
    places = [os.path.join(p, program) for p in os.environ.get("PATH", os.defpath).split(":") if p]
    return next((path for path in places if os.access(path, os.X_OK)), None)


def start(signals: Signals) -> Forked:
    """Start the agent as a fork of this process, which must have no other thread."""
    return Forked(signals, _agent)


def _agent() -> int:
    sys.argv[1:] = JOB[1:]
    return main()
