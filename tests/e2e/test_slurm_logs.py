"""What a job on Slurm prints, saved to the last byte however often its reader is killed and the job is queued again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Cluster
from tests.faults import chosen
from tests.support.aws.log_following import Saver, program, runspec, until
from tests.support.profiles import own_profile
from tests.support.slurm.login_node import login
from tests.support.slurm.shared_cluster import slurm

__all__ = ["slurm"]
pytestmark = pytest.mark.slow

COUNT, FEWER = 1_000_000 if chosen.ALL else 100_000, 20_000
KILLS = 5
# Half of it and some of a line; then the same job again, from there on. In bursts: there is something to follow.
PRINTS = """
import os, subprocess, sys, time
count, first = int(sys.argv[1]), os.environ["RUNSPEC_ATTEMPT"] == "1"
for n in range(*((count // 2,) if first else (count // 2, count))):
    print("line", n, "of the job: größer")
    if n % (count // 10) == 0:
        sys.stdout.flush()
        time.sleep(0.5)
print("half a line" if first else "the last", end="", flush=True)
if first:
    subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
    time.sleep(600)
"""
IDLE_S = 20.0
# Of the controller: at once when there is news, then ever less often, three times a minute in the end.
MOST_A_MINUTE = 30


@pytest.fixture
def here(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a home and a workspace of its own, from which the cluster is reached."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def far(
    slurm: Cluster, tmp_path_factory: pytest.TempPathFactory, here: None
) -> Iterator[dict[str, Any]]:
    """What a profile says of the same cluster behind a login node."""
    env = tuple(f"{name}={value}" for name, value in slurm.env.items())
    with login(tmp_path_factory.mktemp("login"), env) as node:
        yield {"host": "127.0.0.1", "ssh_options": node.options}


def applied(folder: Path, command: list[str], **options: Any) -> str:
    settings = {
        "workspace": str(folder / "workspace"),
        "python": sys.executable,
        "environment": "clean",
        "grace": "1s",
        **options,
    }
    (folder / "code").mkdir()
    (folder / "code/prints.py").write_text(PRINTS)
    spec = {
        "apiVersion": "runspec/v1",
        "name": "prints",
        "provider": "slurm",
        "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
        "env": {"PYTHONIOENCODING": "utf-8"},
        "command": command,
    }
    (folder / "job.yaml").write_text(json.dumps(spec))
    own_profile().write_text(json.dumps({"providers": {"slurm": settings}}))
    done = runspec("apply", "--detach", "job.yaml")
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def saved_while_killed(folder: Path, count: int, **options: Any) -> tuple[bytes, bytes]:
    """Give what was saved of a job that prints *count* lines, and what Slurm has of it."""
    dice, target = random.Random(7), folder / "saved.log"
    run = applied(folder, [sys.executable, "${mounts.code}/prints.py", str(count)], **options)
    log = folder / "workspace/runs" / run / "logs/0-0.txt"
    until(lambda: log.exists() and log.stat().st_size)
    saver = Saver(run, target)
    for _ in range(KILLS):
        time.sleep(dice.uniform(0.4, 1.5))
        saver.kill_now()
    saver.wait()
    return target.read_bytes(), log.read_bytes()


def test_many_lines_are_saved_whole_though_the_reader_is_killed_and_the_job_queued_again(
    here: None, tmp_path: Path
) -> None:
    saved, stored = saved_while_killed(tmp_path, COUNT)

    assert hashlib.sha256(saved).hexdigest() == hashlib.sha256(stored).hexdigest()
    assert written(saved, COUNT)


def test_fewer_lines_are_saved_whole_over_ssh_though_the_reader_is_killed(
    far: dict[str, Any], tmp_path: Path
) -> None:
    saved, stored = saved_while_killed(tmp_path, FEWER, **far)

    assert hashlib.sha256(saved).hexdigest() == hashlib.sha256(stored).hexdigest()
    assert written(saved, FEWER)


def written(saved: bytes, count: int) -> bool:
    """Say whether all lines of the program are there once and in order, those of others left out."""
    lines = [line for line in saved.split(b"\n") if b" of the job: " in line]
    wanted = (f"line {n} of the job: größer".encode() for n in range(count))
    return all(line.endswith(one) for line, one in zip(lines, wanted, strict=True))


def test_who_follows_an_idle_job_hardly_asks_the_controller(
    here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is looked at in the workspace, which costs the controller nothing."""
    run = applied(tmp_path, ["sh", "-c", "echo ready; exec sleep 600"])
    log = tmp_path / "workspace/runs" / run / "logs/0-0.txt"
    until(lambda: log.exists() and log.stat().st_size)
    calls = counted(tmp_path, monkeypatch)
    words = program("logs", "--follow", run)

    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as follower:
        until(lambda: calls.exists() and calls.stat().st_size)
        time.sleep(IDLE_S)
        follower.kill()
    asked = calls.read_text().split()
    assert runspec("destroy", run).returncode == 0

    # In these seconds are all those that come at once.
    assert 1 <= len(asked) <= MOST_A_MINUTE * IDLE_S / 60
    assert set(asked) == {"squeue"}


def counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have every command of Slurm's noted by its name, and run; give the file of notes."""
    (folder / "bin").mkdir()
    for name in ("squeue", "scontrol", "sinfo", "sacct", "scancel", "sbatch"):
        real = shutil.which(name)
        text = f'#!/bin/sh\necho {name} >>{folder}/calls\nexec {real} "$@"\n'
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    return folder / "calls"


def test_a_controller_that_is_stopped_for_twenty_seconds_ends_no_apply_that_follows(
    slurm: Cluster, here: None, tmp_path: Path
) -> None:
    """The job goes on meanwhile, and what it prints is shown."""
    gates = [tmp_path / name for name in ("first", "second")]
    wait = "".join(
        f"; while [ ! -e {gate} ]; do sleep 0.1; done; echo {gate.name}" for gate in gates
    )
    run = applied(tmp_path, ["sh", "-c", f"echo begun{wait}"])
    follower = subprocess.Popen(
        program("logs", "-f", run), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "begun\n"
        with slurm.frozen():
            time.sleep(20.0)  # as long as it takes for a squeue to give up, and another to begin
            gates[0].touch()
            assert follower.stdout.readline() == "first\n"
        gates[1].touch()
        out, err = follower.communicate(timeout=120)
    finally:
        follower.kill()
        follower.wait()

    assert (follower.returncode, out) == (0, "second\n"), err
    assert err.count("does not answer since") <= 1
    assert err.count("answers again") == err.count("does not answer since")
