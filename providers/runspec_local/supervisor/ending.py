"""How the end of a node and of a job is told, also on a disk that is full. Standard library only."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runspec_local.supervisor.events import Events

FULL_S = 600.0  # for a full disk to take the last line
FULL_PAUSE_S = 1.0


def shell_code(code: int) -> int:
    """Give an exit code as a shell does: 128 + n for a process that signal n ended."""
    return code if code >= 0 else 128 - code


def meaning(code: int) -> str:
    """Say what an exit code means where it means something."""
    known = {126: "cannot be executed", 127: "command not found"}
    if code in known:
        return f" ({known[code]})"
    if code > 128 and code - 128 in set(signal.Signals):
        name = signal.Signals(code - 128).name
        return f" ({name}: perhaps out of memory)" if name == "SIGKILL" else f" ({name})"
    return ""


def summary(codes: Mapping[int, int], reasons: Sequence[str]) -> str:
    """Say why the job failed: the only task's reason, or how many failed and the first's."""
    failed = [task for task, code in codes.items() if code]
    if not failed:
        return ""
    if len(codes) == 1:
        return reasons[0] if reasons else ""
    return f"{len(failed)} of {len(codes)} tasks failed; task {min(failed)} {reasons[0]}"


def add(events: Events, end: Mapping[str, Any], asked: Callable[[], bool]) -> None:
    """Say how the job ended, as soon as the disk has room for it; not once *asked* to end."""
    until = time.monotonic() + FULL_S
    try:
        events.add("end", durable=True, **end)
        return
    except OSError as exc:
        sys.stderr.write(f"runspec: cannot say how the job ended: {exc.strerror or exc}\n")
    while time.monotonic() < until and not asked():
        time.sleep(FULL_PAUSE_S)
        with contextlib.suppress(OSError):
            events.flush()
            return
