"""The main job on this machine, which is run once for all that ask of it, whichever worker they are in."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.root import ROOT
from tests.support.shared_folder import shared_folder

SPEC = ROOT / "specs" / "mnist-chainer.yaml"


class MainJob(NamedTuple):
    """The main job after its end: its state folder, and what `apply` printed."""

    home: Path
    log: str
    told: str


def apply_main_job(factory: pytest.TempPathFactory) -> MainJob:
    """Apply the spec as it stands, unless another test of this run has done so. Nobody may take the run away."""
    folder = shared_folder(factory) / "main-job"
    folder.mkdir(exist_ok=True)
    job = folder / "state", folder / "log", folder / "told"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not job[2].exists():
            line = [sys.executable, "-m", "runspec_jobs", "apply", str(SPEC)]
            env = os.environ | {"RUNSPEC_HOME": str(job[0])}
            done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
            job[1].write_text(done.stdout)
            job[2].write_text(done.stderr)
    return MainJob(job[0], job[1].read_text(), job[2].read_text())
