"""The arguments and the results of figures: rows of the table, with the limits that must hold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.installs import Install
from bench.measure import Command, Timing, in_turns


@dataclass(frozen=True)
class Row:
    """One line of the table. The limits are of the ratio, or of the value where is no peer."""

    what: str
    ours: float
    unit: str
    peer: str = ""
    theirs: float | None = None
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    @property
    def ok(self) -> bool | None:
        """Whether the limit holds; None where there is none."""
        value = self.ours if self.theirs is None else self.ratio
        if value is None or (self.at_most is None and self.at_least is None):
            return None
        low, high = self.at_least, self.at_most
        return (low is None or value >= low) and (high is None or value <= high)


@dataclass(frozen=True)
class Bench:
    """What every figure is given."""

    runspec: Install
    room: Path
    env: Mapping[str, str]
    rounds: int
    losses: int  # runs to look for lost lines in

    def ours(self, *words: str, shows: str = "") -> Command:
        return Command((self.runspec.command("runspec"), *words), shows, cwd=self.room)

    def job(self, name: str, text: str, provider: str, settings: Mapping[str, Any]) -> str:
        """Write a job file, with a trusted profile of *settings* beside it; give its path."""
        folder = self.room / name
        folder.mkdir()
        (folder / "job.yaml").write_text(text)
        if settings:
            profile = folder / "runspec-profile.yaml"
            profile.write_text(json.dumps({"providers": {provider: dict(settings)}}))
            line = [self.runspec.command("runspec"), "trust", str(profile)]
            subprocess.run(line, env=self.env, capture_output=True, check=True)
        return str(folder / "job.yaml")

    def in_turns(
        self,
        *commands: Command,
        rounds: int | None = None,
        more: Mapping[str, str] | None = None,
    ) -> tuple[Timing, ...]:
        """Time *commands* against each other, with *more* in their environment."""
        return in_turns(commands, rounds or self.rounds, {**self.env, **(more or {})})
