"""Whether a program ended by itself, where Slurm tells it to end a moment before its agent."""

from __future__ import annotations

import os
import signal

from runspec_agent.base.job_env import STOPPED
from runspec_agent.base.process import Signals
from runspec_agent.launch import launcher_end


def test_a_signal_that_arrives_after_the_program_has_ended_counts() -> None:
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)

        assert not launcher_end.is_own(STOPPED, signals, None)
