"""Intervals and limits of a client, chosen cautiously where no documentation gives a value, and its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from runspec_agent.base import limits


@dataclass(frozen=True)
class Timing:
    """How long a client waits, in seconds where no other unit is given."""

    settle_s: float = 20.0
    """How long a submission without an answer may still arrive: sbatch waits for the controller for MessageTimeout
    (10 s by default), and a controller that was suspended accepts the waiting requests when it continues.
    https://slurm.schedmd.com/slurm.conf.html#OPT_MessageTimeout"""
    look_s: float = 0.05
    """How long the result of a look at the workspace is reused, at least; *look_ssh_s* if it is on another machine."""
    look_ssh_s: float = 1.0
    look_share: int = 10
    """The result is reused this many times as long as the look took, up to *look_cap_s*. Without the cap, a login node
    that hung for a minute would hide the end of a job for ten."""
    look_cap_s: float = 2.0
    ask_first_s: float = 0.25
    """The controller is polled at once when the workspace shows a change of the run, and then after this pause; each
    later pause is *ask_grows* times the last, up to *ask_last_s*."""
    ask_last_s: float = 20.0
    ask_grows: float = 1.5
    command_s: float = 120.0
    """A command without an answer after this time is killed. Slurm's own commands give up after MessageTimeout (10 s),
    some after several attempts: https://slurm.schedmd.com/slurm.conf.html#OPT_MessageTimeout"""
    stage_s: float = 24 * 3600.0
    """The same for the upload of a folder."""
    connect_s: int = 20
    """How long ssh waits for a connection."""
    persist_s: int = 120
    """How long an unused connection is kept open for the next command."""
    login_s: float = 30.0
    """How long a login may take for a shell that commands share. One that reads standard input itself never ends."""
    quick_login_s: float = 0.03
    """How long it takes until it was measured, and at least."""
    alone_s: float = 600.0
    """How long commands log in one by one after such a shell could not be held."""
    shell_exit_s: float = 1.0
    """How long such a shell may take to end."""
    notes_s: float = 3.0
    """How long a file that a node wrote just before its job ended may stay invisible here."""
    index_s: float = 5.0
    """How long a part of a log is held back whose time is wanted and not noted yet: the agent notes it each second."""
    unknown_min: int = 3
    """How many minutes to wait for the exit record of a job that Slurm does not know, three times the delay of NFS."""
    unknown_poll_s: float = 5.0
    """Between two checks of such a job."""
    stop_poll_s: float = 1.0
    """Between two checks of jobs that are being stopped."""
    save_s: float = limits.SAVE_S
    """For a job to save its work, after its grace period."""
    first_pause_s: float = 0.1
    """Between the first two looks for the end of cancelled jobs; each later pause is half as long again."""
    longest_pause_s: float = 2.0
    """The longest of these pauses."""
    gone_s: float = 300.0
    """How long all processes of a cancelled job may take to end: KillWait (30 s) and the epilog."""


@dataclass(frozen=True)
class Clock:
    """The clock of a client."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


DEFAULT = Timing()  # what plans and `connect` use
CLOCK = Clock()
