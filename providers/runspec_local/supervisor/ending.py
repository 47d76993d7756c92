"""Record the end of a node and of a job, also on a full disk. Standard library only."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runspec_local.supervisor.events import Events

FULL_S = 600.0  # how long to wait for space for the last line
FULL_PAUSE_S = 1.0


def shell_code(code: int) -> int:
    """Return an exit code as a shell does: 128 + n for a process that was ended by signal n."""
    return code if code >= 0 else 128 - code


def meaning(code: int) -> str:
    """Return an explanation of an exit code, or an empty string."""
    known = {126: "cannot be executed", 127: "command not found"}
    if code in known:
        return f" ({known[code]})"
    if code > 128 and code - 128 in set(signal.Signals):
        name = signal.Signals(code - 128).name
        return f" ({name}: perhaps out of memory)" if name == "SIGKILL" else f" ({name})"
    return ""


def summary(codes: Mapping[int, int], reasons: Sequence[str]) -> str:
    """Return why the job failed: the reason of its only task, or the number of failed tasks and the first reason."""
    failed = [task for task, code in codes.items() if code]
    if not failed:
        return ""
    if len(codes) == 1:
        return reasons[0] if reasons else ""
    return f"{len(failed)} of {len(codes)} tasks failed; task {min(failed)} {reasons[0]}"


def add(events: Events, end: Mapping[str, Any], asked: Callable[[], bool]) -> None:
    """Record how the job ended, once the disk has space for it; give up when *asked* returns True."""
    until = time.monotonic() + FULL_S
    try:
        events.add("end", durable=True, **end)
        return
    except OSError as exc:
        sys.stderr.write(f"runspec: cannot record how the job ended: {exc.strerror or exc}\n")
    while time.monotonic() < until and not asked():
        time.sleep(FULL_PAUSE_S)
        with contextlib.suppress(OSError):
            events.flush()
            return
