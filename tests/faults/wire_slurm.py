"""The wire of a command line that talks to a Slurm cluster: every command counted, and one of them going wrong.

All that a client does at a cluster is a piece of shell, run here or by ssh, so a command is a boundary before it is run
and after it has ended; and each of the simple commands that it is made of is one, where the shell dies with its caller.
What runs is the real thing, but for what a fault puts in its place.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from runspec_jobs.load import registry
from runspec_slurm import cleanup, client, discover, queue, timing
from runspec_slurm.lookup import jobs, ownership
from runspec_slurm.session import transport
from runspec_slurm.session.process import Done
from runspec_slurm.session.shared_shell import close_shells
from runspec_slurm.status import unknown_outcomes, workspace_poll
from runspec_slurm.store import records, workspace
from tests.faults.boundaries import Boundaries
from tests.support.fault_proxy import HANG_S, CountedRequests

SETTLE_S = 2.5  # longer than squeue lags in these tests
LOST = 255
BANNER = b"Welcome to the cluster!\n\n*** maintenance: 1 April 8:00 | a|b|c ***\nclaim 1\n7 7\n"
# Pieces of shell by what they do; in capitals what a request of that kind is called elsewhere: see chosen.py.
KINDS: Mapping[str, str] = {
    queue.SUBMIT: "POST sbatch",
    queue.CANCEL: "DELETE scancel",
    queue.TERMINATE: "DELETE scancel --batch",
    queue.CANCEL_WAITING: "DELETE scancel --state",
    queue.OF_NAME: "GET squeue --name",
    queue.OF_JOB: "GET squeue --jobs",
    queue.ALL: "GET squeue",
    queue.ACCOUNT: "GET sacct",
    jobs.REPLACE_CLAIMS: "PUT claim of nobody",
    jobs.REQUEST_STOPS: "PUT stop of tasks",
    jobs.NOTE_RELEASED: "PUT released nodes",
    queue.HOLD: "PUT scontrol hold",
    queue.LET_GO: "PUT scontrol release",
    queue.START_AGAIN: "PUT scontrol requeue",
    workspace.PUT: "PUT {}",
    workspace.ARRIVE: "PUT content of {}",
    workspace.NAME: "PUT name of {}",
    workspace.FORGET: "DELETE part of {}",
    workspace.CLAIM: "PUT new {}",
    workspace.REMOVE: "DELETE {}",
    workspace.REMOVE_TREE: "DELETE folder {}",
    workspace.READ: "GET {}",
    workspace.SIZE: "GET size of {}",
    workspace.PART: "GET part of {}",
    workspace.PARTS: "GET parts",
    workspace.FOLDERS: "GET folders of {}",
    workspace.LIST: "GET list of {}",
    workspace.LIST_LIKE: "GET list like of {}",
    workspace.HOLDS_RUNS: "GET runs there",
    workspace_poll.LOOK: "GET look",
    workspace_poll.NOTES: "GET notes",
    records.TOGETHER: "GET together",
    ownership.TIMES: "GET times",
    unknown_outcomes.CHECK: "GET missing",
    unknown_outcomes.MARK: "PUT missing",
    cleanup.UNFINISHED: "GET unfinished",
    cleanup.RUNS: "GET runs",
    discover.ASK: "GET survey",
}
# Before a script, so that the shell dies with its caller before the simple command of that number; it counts all that
# it is made of, but for those in subshells. $$ is the shell itself: bash(1), DEBUG.
DIES = "n=0; trap 'n=$((n+1)); [ $n != {step} ] || kill -9 {caller} $$' DEBUG\n"
COUNTS = "n=0; trap 'n=$((n+1))' DEBUG; trap 'echo $n >{file}' EXIT\n"

# What takes the place of a command of Slurm's, in shell; REAL runs it.
STANDS_IN = """#!/bin/sh
PATH=${PATH#*:}
said() { echo "$(basename "$0"): error: $1" >&2; exit 1; }
STRUCK
exec "$(basename "$0")" "$@"
"""
TIMED_OUT = "Socket timed out on send/recv operation"
BY_SLURM: Mapping[str, tuple[str, str]] = {
    "refused": ("sbatch", 'said "Batch job submission failed: Invalid qos specification"'),
    "sbatch times out before": ("sbatch", f'said "Batch job submission failed: {TIMED_OUT}"'),
    "sbatch times out after": (
        "sbatch",
        f'sbatch "$@" >/dev/null; said "Batch job submission failed: {TIMED_OUT}"',
    ),
    "sbatch is killed after": ("sbatch", 'sbatch "$@" >/dev/null; kill -9 $$'),
    "scancel times out after": (
        "scancel",
        f'scancel "$@"; said "Kill job error on job id 1: {TIMED_OUT}"',
    ),
    "scontrol times out after": ("scontrol", f'scontrol "$@"; said "{TIMED_OUT}"'),
    "squeue times out": ("squeue", f'said "slurm_load_jobs error: {TIMED_OUT}"'),
    "no controller": (
        "squeue",
        'said "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"',
    ),
    "the disk is full": (
        "cat",
        'cat "$@" | head -c 10; said "write error: No space left on device"',
    ),
}
BY_SSH = ("255 before", "255 after", "255 in between", "hangs", "a banner")
FAULTS = (*BY_SSH, *BY_SLURM)
# What squeue does not show yet: jobs submitted less than LAG ago, by the field of the time.
LAGS = """#!/bin/sh
PATH=${PATH#*:}
field=$(($(printf %s "$*" | sed 's/SubmitTime.*//' | tr -cd , | wc -c) + 1))
squeue "$@" | awk -F'\\037' -v now="$(date +%s)" -v lag=LAG -v field="$field" '$field + lag < now'
"""


class Command(NamedTuple):
    """A command as the client has it, here or behind ssh."""

    words: tuple[str, ...]  # /bin/sh -c SCRIPT sh ARG...

    @property
    def script(self) -> str:
        return self.words[2]

    @property
    def args(self) -> tuple[str, ...]:
        return self.words[4:]

    def by(self, *words: str) -> Command:
        """Give it with another program in front."""
        return self._replace(words=(*words, *self.words))

    def with_script(self, begin: str) -> Command:
        """Give it with *begin* before the script, run by bash."""
        script = f"{begin}{self.script}"
        return self._replace(words=("bash", "--posix", "-c", script, *self.words[3:]))


Run = Callable[[Sequence[str], Iterable[bytes] | None, float], Done]


def named(script: str, args: Sequence[str]) -> str:
    """Give a command a name that is the same in every run.

    >>> named(workspace.READ, ["/w", "runs/faults-a1b2c3/record.json"])
    'GET runs/*/record.json'
    """
    kind = next((name for text, name in KINDS.items() if script.endswith(text)), "GET something")
    key = next((word for word in args[1:] if "/" in word), "") if "{}" in kind else ""
    key = re.sub(r"\bfaults-[0-9a-z]{6}\b", "*", key)
    return kind.format(re.sub(r"[0-9a-f]{32,}", "*", key))


class SlurmWire:
    """Counts the commands of this process; number *at*, from 1, goes wrong as *fault* says."""

    def __init__(
        self,
        steps: Boundaries,
        at: int | None,
        fault: str | None,
        *,
        lag_s: float = 0.0,
        counts: bool = False,
    ) -> None:
        self.steps, self.requests = steps, CountedRequests(steps, at, fault)
        self.lag_s, self.counts = lag_s, counts
        self.bin = Path(steps.world) / "bin"

    def install(self) -> None:
        timing.DEFAULT = timing.Timing(
            settle_s=SETTLE_S, notes_s=0.5, ask_last_s=0.5, look_ssh_s=0.3
        )
        transport.Here.near = (
            False  # the same commands here and behind ssh; what is read near, no fault changes
        )
        self.steps.watch(client.SlurmClient)
        for kind in (transport.Here, transport.Ssh):
            self._wrap(kind)

    def _wrap(self, kind: type[transport.Here | transport.Ssh]) -> None:
        real: Any = kind.carry_out

        def carry_out(way: Any, *command: Any) -> Done:
            return self.passed(partial(real, way), *command)

        setattr(kind, "carry_out", carry_out)  # noqa: B010 - mypy takes no method for another

    def passed(
        self, run: Run, words: Sequence[str], content: Iterable[bytes] | None, timeout_s: float
    ) -> Done:
        one = Command(tuple(words))
        what = named(one.script, one.args)
        if self.steps.muted and what.partition(" ")[0] != "GET":
            return self._unmuted(run, words, content, timeout_s)
        inside: dict[str, int] = {}
        with self.requests.one(what, inside) as fault:
            if fault is not None:
                return self._struck(run, fault, one, content, timeout_s)
            if not self.counts:
                return self._run(run, one, content, timeout_s)
            found, inside["inside"] = self._counted(run, one, content, timeout_s)
            return found

    def _unmuted(
        self, run: Run, words: Sequence[str], content: Iterable[bytes] | None, timeout_s: float
    ) -> Done:
        """What changes something is a boundary also where its caller asks again and again."""
        muted, self.steps.muted = self.steps.muted, 0
        try:
            return self.passed(run, words, content, timeout_s)
        finally:
            self.steps.muted = muted

    def _run(
        self,
        run: Run,
        one: Command,
        content: Iterable[bytes] | None,
        timeout_s: float,
        stands_in: tuple[str, str] | None = None,
    ) -> Done:
        """Run the command, with what stands in for a command of Slurm's."""
        texts = dict([stands_in]) if stands_in is not None else {}
        if self.lag_s:
            texts.setdefault("squeue", LAGS.replace("LAG", str(self.lag_s)))
        if texts:
            folder = Path(tempfile.mkdtemp(dir=self.bin))
            for name, text in texts.items():
                (folder / name).write_text(text)
                (folder / name).chmod(0o700)
            one = one.by("sh", "-c", f'PATH={folder}:$PATH; export PATH; exec "$@"', "sh")
        return run(one.words, content, timeout_s)

    def _counted(
        self, run: Run, one: Command, content: Iterable[bytes] | None, timeout_s: float
    ) -> tuple[Done, int]:
        file = self.bin / f"count-{self.requests.count}"
        found = self._run(run, one.with_script(COUNTS.format(file=file)), content, timeout_s)
        return found, int(file.read_text()) if file.exists() else 0

    def _struck(
        self,
        run: Run,
        fault: str,
        one: Command,
        content: Iterable[bytes] | None,
        timeout_s: float,
    ) -> Done:
        if fault.startswith("dies at "):
            begin = DIES.format(step=fault.rpartition(" ")[2], caller=os.getpid())
            return self._run(run, one.with_script(begin), content, timeout_s)
        if fault in BY_SLURM:
            name, text = BY_SLURM[fault]
            stands_in = name, STANDS_IN.replace("STRUCK", text)
            return self._run(run, one, content, timeout_s, stands_in)
        if fault == "hangs":
            return self._run(
                run, one.by("sh", "-c", '"$@"; sleep 60', "sh"), content, min(HANG_S, timeout_s)
            )
        if fault == "255 before":
            close_shells()  # a connection takes the shell along that commands share
            return Done(LOST, b"", "client_loop: send disconnect: Broken pipe")
        if fault == "a banner":
            greets = f'printf %s {shlex.quote(BANNER.decode())}; exec "$@"'
            return self._run(run, one.by("sh", "-c", greets, "sh"), content, timeout_s)
        found = self._run(run, one, content, timeout_s)
        close_shells()
        out = found.out[: len(found.out) // 2] if fault == "255 in between" else b""
        return Done(LOST, out, "Connection to 127.0.0.1 closed by remote host.")


def installed(steps: Boundaries, **how: Any) -> None:
    SlurmWire(steps, **how).install()


def warm() -> None:
    """Have all that the provider imports in memory before anything is forked."""
    registry.load("slurm")
    importlib.import_module("runspec_slurm.client")
    importlib.import_module("runspec_slurm.discover")
