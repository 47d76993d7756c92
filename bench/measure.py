"""Run commands in turns and time them: on a noisy machine only such figures can be compared."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self


@dataclass(frozen=True)
class Command:
    """A command and what must be in its output for a run of it to count."""

    argv: tuple[str, ...]
    shows: str = ""
    cwd: Path | None = None


@dataclass(frozen=True)
class Sample:
    """One run: seconds of this clock, processor seconds of it and of all it waited for."""

    wall_s: float
    cpu_s: float
    output: str

    @classmethod
    def of(cls, command: Command, env: Mapping[str, str]) -> Self:
        """Run *command* and give its sample; RuntimeError when it fails."""
        with tempfile.TemporaryFile() as output:
            begun = time.perf_counter()
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=command.cwd,
                env=env,
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - begun
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read().decode(errors="replace")
        if process.returncode != 0:
            words = " ".join(command.argv)
            raise RuntimeError(f"exit {process.returncode} of {words}\n{text[-2000:]}")
        return cls(wall_s, usage.ru_utime + usage.ru_stime, text)


def peak_mb(command: Command, env: Mapping[str, str]) -> float:
    """Run *command* and give the most memory that it had, in 10^6 bytes.

    It is looked up while the command runs: what wait4 tells begins with the memory of this process.
    proc_pid_status(5), VmHWM
    """
    most_kib = 0
    with subprocess.Popen(
        command.argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=command.cwd,
        env=env,
    ) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            for line in status.read_text().splitlines():
                if line.startswith("VmHWM:"):
                    most_kib = max(most_kib, int(line.split()[1]))
            time.sleep(0.01)
    return most_kib * 1024 / 1e6


@dataclass(frozen=True)
class Timing:
    """The medians of many runs, and how many of them did not show what they had to."""

    wall_s: float
    cpu_s: float
    runs: int
    lost: int


def in_turns(
    commands: Sequence[Command], rounds: int, env: Mapping[str, str]
) -> tuple[Timing, ...]:
    """Time *commands* against each other: one run each, *rounds* times over.

    A first run of each fills the caches and is not counted.
    """
    return in_rounds(commands, rounds, lambda: nullcontext(env))


Around = Callable[[], AbstractContextManager[Mapping[str, str]]]
"""What a round is done in: it gives the variables that all commands of the round are given."""


def in_rounds(
    commands: Sequence[Command], rounds: int, around: Around, beat_s: float = 0
) -> tuple[Timing, ...]:
    """Time *commands* as `in_turns` does, each round in surroundings of its own.

    A service that begins things every *beat_s* is met at any point between two beats, by chance: else the end of
    one command would say how long the next one waits.
    """
    taken: list[list[Sample]] = [[] for _ in commands]
    for n in range(rounds + 1):
        with around() as env:
            for command, samples in zip(commands, taken, strict=True):
                time.sleep(random.SystemRandom().uniform(0, beat_s))
                sample = Sample.of(command, env)
                if n:
                    samples.append(sample)
    return tuple(_timing(c, samples) for c, samples in zip(commands, taken, strict=True))


def _timing(command: Command, samples: Sequence[Sample]) -> Timing:
    return Timing(
        wall_s=median(s.wall_s for s in samples),
        cpu_s=median(s.cpu_s for s in samples),
        runs=len(samples),
        lost=sum(command.shows not in s.output for s in samples),
    )
