"""Jobs of a Slurm whose nodes are machines, applied on one of them, which reaches the login node by SSH alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspec_emulators.slurm import Machines

WAIT_S = 240


@dataclass
class Desk:
    """Where somebody works who has runspec, a key, and none of Slurm's settings: it is one of the machines."""

    machines: Machines
    folder: Path
    at: str

    @property
    def options(self) -> dict[str, Any]:
        """Give a profile: `scratch` is a folder that each machine has for itself."""
        ssh = self.machines.ssh
        return {
            "host": "root@head",
            "ssh_options": [
                f"IdentityFile={ssh / 'me'}",
                f"UserKnownHostsFile={ssh / 'known'}",
                "GlobalKnownHostsFile=/dev/null",
            ],
            "workspace": str(self.folder / "workspace"),
            "environment": "clean",
            "scratch": "/mnt",
        }

    def begin(
        self, spec: Mapping[str, Any], verb: Sequence[str] = ("apply",), **options: Any
    ) -> subprocess.Popen[str]:
        """Start `runspec apply`. Specs and profiles are JSON, which is YAML."""
        profile = {"providers": {"slurm": {**self.options, **options}}}
        whole = {"apiVersion": "runspec/v1", "name": "many", "provider": "slurm", **spec}
        (self.folder / "profile.yaml").write_text(json.dumps(profile))
        (self.folder / "job.yaml").write_text(json.dumps(whole))
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
        there = [*self.machines.at(self.at), "env", f"--chdir={self.folder}"]
        return subprocess.Popen(
            [*there, sys.executable, "-m", "runspec_jobs", *verb, "job.yaml"],
            env={
                **env,
                "RUNSPEC_HOME": str(self.folder / "home"),
                "RUNSPEC_PROFILE": str(self.folder / "profile.yaml"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def script(self, text: str) -> str:
        """Write a program into the folder that all machines share."""
        path = self.folder / "program.py"
        path.write_text(text)
        return str(path)


def ended(applying: subprocess.Popen[str], timeout_s: float = WAIT_S) -> str:
    """Give all that runspec says of a job that succeeds."""
    said, _ = applying.communicate(timeout=timeout_s)
    assert applying.returncode == 0, said
    return said


def told(said: str) -> list[Any]:
    """Give the JSON lines of a job, in whatever order its nodes told them."""
    lines = [line.rpartition("] ")[2] for line in said.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]
