"""Supervisors of `local` that are killed: nothing of their jobs goes on beside a second start, or after a destroy."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import Request, State
from runspec_local import status
from runspec_local.client import LocalClient
from runspec_local.supervisor import process
from tests.faults import chosen
from tests.support.wait import until
from tests.unit.runspec_local.supervisor.test_supervisor import job

KILLS = 50 if chosen.ALL else 5  # of each program
# fd 9 is inherited: the lock is held as long as anything of the program lives.
BODY = "exec 9>>{lock}; flock -n 9 || echo $RUNSPEC_RUN >>{doubles}; : >{begun}"
PROGRAMS = {
    "a program behind a shell": "( {body}; sleep 600 ) & wait",
    "a daemon": "setsid -f /bin/sh -c '{body}; sleep 600'; sleep 600",
    "a daemon without our variables": "env -i PATH=$PATH setsid -f /bin/sh -c '{body}; sleep 600'; sleep 600",
    "a program that ignores SIGTERM": "trap '' TERM; {body}; sleep 600 & wait; sleep 600",
}


def started(client: LocalClient, root: Path, number: int, program: str) -> Path:
    """Start run *number* and wait until its program has begun; give the run's folder."""
    run, begun = f"killed-{number:06}", root / f"begun-{number}"
    body = BODY.format(lock=root / "lock", doubles=root / "doubles", begun=begun)
    folder = root / "runs" / run
    script = program.format(body=body)
    client.call(Request("local", "start", job(run, folder, ["/bin/sh", "-c", script])))
    until(begun.exists)
    return folder


def kill(folder: Path) -> None:
    """Kill the supervisor of a run, and wait until it is dead: no apply starts another run before."""
    who: Any = status.supervisor(folder)
    os.kill(who["pid"], signal.SIGKILL)
    until(lambda: not process.alive(who))


def is_free(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_nothing_of_a_killed_supervisors_job_goes_on_beside_a_second_start(
    tmp_path: Path, program: str
) -> None:
    client, dice = LocalClient(str(tmp_path)), random.Random(program)
    folders: list[Path] = []

    for number in range(KILLS):
        folders.append(started(client, tmp_path, number, program))
        time.sleep(dice.uniform(0, 0.1))
        kill(folders[-1])

    assert not (tmp_path / "doubles").exists(), (tmp_path / "doubles").read_text()
    for folder in folders:
        client.call(Request("local", "remove_run", {"run": folder.name, "folder": str(folder)}))
    assert is_free(tmp_path / "lock")


@pytest.mark.slow
def test_a_killed_supervisors_job_ends_without_another_command(tmp_path: Path) -> None:
    """Its status says one thing meanwhile, of the run and of its node."""
    client = LocalClient(str(tmp_path))
    folder = started(client, tmp_path, 0, PROGRAMS["a daemon without our variables"])

    kill(folder)

    status = client.state(folder.name)
    assert (status.state, [n.state for n in status.nodes]) == (State.FAILED, [State.FAILED])
    until(lambda: is_free(tmp_path / "lock"))
