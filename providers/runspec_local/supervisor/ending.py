"""Record the end of a node and of a job, also on a full disk. Standard library only."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runspec_agent.base.light_typing import Any
from runspec_local.supervisor import events, process
from runspec_local.supervisor.child import Child
from runspec_local.supervisor.device_leases import Devices
from runspec_local.supervisor.events import Events
from runspec_local.supervisor.saver import Saver

FULL_S = 600.0  # how long to wait for space for the last line
FULL_PAUSE_S = 1.0
ENGINE_FAILED, CANNOT_RUN = 125, 126  # exit codes of an engine: podman-run(1), "Exit Status"
REASON_BYTES = 16 << 10  # of a log, to look for what an engine said
# The line in which an engine, or the first process of a container, says why it cannot start.
FAILURE = re.compile(
    r"^(?:Error: |docker: (?:Error response from daemon: )?)(.+)|^(exec .+)", re.MULTILINE
)
NO_REASON = re.compile(r"\s*$|Run 'docker run --help'|See 'docker run --help'")


def of_run(folder: Path) -> str | None:
    """Return the state in which the run in *folder* has ended, or None while it waits or runs.

    A run whose supervisor was killed has failed, and so has one that is not there any more.
    """
    started = folder / "started.json"
    try:
        who = json.loads(started.read_bytes())
        is_alive = process.alive(who)  # read before the events, since it may end in between
    except FileNotFoundError:
        return None if folder.exists() else "failed"
    except (OSError, ValueError, LookupError, TypeError):
        is_alive = process.supervisor_in(folder) is not None
    with contextlib.suppress(OSError):
        if end := events.last(events.read(folder / "events.jsonl"), "end"):
            return str(end["state"])
    return None if is_alive else "failed"


def shell_code(code: int) -> int:
    """Return an exit code as a shell does: 128 + n for a process that was ended by signal n."""
    return code if code >= 0 else 128 - code


def unstarted_code(code: int) -> int:
    """Return the exit code of a container that could not start, from that of its engine.

    An engine ends with 1, 255 or even 0 if the kernel cannot execute the first program of an image.
    """
    return code if code >= ENGINE_FAILED and code != 255 else CANNOT_RUN


def engine_reason(said: str) -> str:
    """Return why a container could not start, from what its engine has *said* in the log.

    >>> engine_reason("Trying to pull i:1...\\nError: initializing source docker://i:1: it was refused\\n")
    'initializing source docker://i:1: it was refused'
    """
    if failure := FAILURE.search(said):
        return (failure[1] or failure[2]).strip()
    lines = [line for line in said.splitlines() if not NO_REASON.match(line)]
    return lines[-1].strip() if lines else "it gave no reason"


def summary(codes: Mapping[int, int], reasons: Sequence[str]) -> str:
    """Return why the job failed: the reason of its only task, or the number of failed tasks and the first reason."""
    failed = [task for task, code in codes.items() if code]
    if not failed:
        return ""
    if len(codes) == 1:
        return reasons[0] if reasons else ""
    return f"{len(failed)} of {len(codes)} tasks failed; task {min(failed)} {reasons[0]}"


def add(kept: Events, end: Mapping[str, Any], asked: Callable[[], bool]) -> None:
    """Record how the job ended, once the disk has space for it; give up when *asked* returns True."""
    until = time.monotonic() + FULL_S
    try:
        kept.add("end", durable=True, **end)
        return
    except OSError as exc:
        sys.stderr.write(f"runspec: cannot record how the job ended: {exc.strerror or exc}\n")
    while time.monotonic() < until and not asked():
        time.sleep(FULL_PAUSE_S)
        with contextlib.suppress(OSError):  # the disk is still full
            kept.flush()
            return


# One attempt of one task, as the supervisor knows it.


LINGER_S = 0.1  # between two looks at the processes that a node has left behind


class Attempt:
    """One attempt of one task: its nodes, and the time of its timeout."""

    def __init__(
        self,
        nodes: dict[int, Child],
        savers: list[Saver],
        deadline: float | None,
        devices: Devices,
    ) -> None:
        self.nodes, self.savers, self.deadline = nodes, savers, deadline
        self.devices = devices  # the GPUs of each node
        self.codes: dict[int, int] = {}
        self.failed = 0  # exit code of the node that failed first, which ends the others
        self.reason = ""
        self.signal_at: float | None = None  # when its programs get the signal of the spec
        self.late = False  # whether it has reached its timeout
        # Whether its containers cannot start, so that another attempt could not either.
        self.unable = False
        self.unprepared = False  # whether `failed` is the exit code of a setup
        self.ending: float | None = None  # when the remaining nodes are killed
        # The container that owns the network of the task's containers.
        self.network: Child | None = None
        self.saving = False  # whether the nodes have ended and their outputs are being saved
        self.tries: dict[int, int] = {}  # attempts of each node of an elastic job
        self.returns: dict[int, int] = {}  # of those, how often each came back
        self.released: set[int] = set()  # nodes of an elastic job that were given back
        self.log_sizes: dict[int, int] = {}  # bytes in the log of each node before it

    @property
    def left(self) -> list[Child]:
        return [child for rank, child in self.nodes.items() if rank not in self.codes]

    @property
    def can_be_stopped(self) -> bool:
        """Return whether any of its nodes runs, so that stopping the task has an effect."""
        return not self.saving and not all(child.ended for child in self.left)

    @property
    def next_s(self) -> list[float]:
        """Return the next time at which something must be done to its nodes, if there is one."""
        next_s = (self.signal_at or self.deadline) if self.ending is None else self.ending
        if any(not child.watched for child in self.left):  # others of its group have not ended
            return [time.monotonic() + LINGER_S]
        return [] if self.saving or next_s is None else [next_s]
