"""A client of Slurm whose queue shows what a test says, and whose accounting does not work."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runspec_slurm import queue, timing
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions


def forgetful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: str, age_s: int, shown: str = ""
) -> SlurmClient:
    """Give the client of a workspace with the run job-a1, whose queue has *shown* and no more."""
    options = SlurmOptions(workspace=str(tmp_path))
    client = SlurmClient(options, timing=timing.Timing(notes_s=0.0))
    (tmp_path / "bin").mkdir()
    line = shown.replace("|", queue.BETWEEN)
    for name, text in (("squeue", f"echo '{line}'"), ("sacct", "exit 1")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    client.store.put("runs/job-a1/record.json", b'{"count": 1, "nodes": 1}')
    client.store.put("runs/job-a1/claim", claim.encode())
    then = time.time() - age_s
    os.utime(tmp_path / "runs/job-a1/claim", (then, then))
    return client
