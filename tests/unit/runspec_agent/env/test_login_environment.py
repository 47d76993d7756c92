"""The environment of a login shell, taken once for all tasks on a node: a real sh reads what was written of it."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.env import login_environment

pytestmark = pytest.mark.process
# Prints as the files of a user may, and counts how often it was started.
SHELL = """#!/bin/bash
echo started >>"$HOME/started"
echo welcome to $SHELL
export A="it's
two lines" PATH=/opt/site/bin:$PATH SLURM_JOB_ID=7 PWD=/
f() { echo called; }
export -f f
%s
eval "$2"
"""


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    """Set SIGTERM back, which `login` ignores: jobs of later tests would inherit that."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a user with a login shell, and give the home."""
    return of_user(tmp_path, monkeypatch, "")


def of_user(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> Path:
    shell = folder / "loginsh"
    shell.write_text(SHELL % line)
    shell.chmod(0o755)
    own = pwd.getpwuid(os.getuid())
    owner = pwd.struct_passwd((*own[:5], str(folder), str(shell)))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: owner)
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    for name in ("HOME", "SHELL", "USER", "LOGNAME"):  # Slurm sets none of them
        monkeypatch.delenv(name, raising=False)
    return folder


def read_by(shell: tuple[str, ...], path: Path) -> dict[str, str]:
    """Give the variables of a program that *shell* starts after it has read *path*, as the batch script does."""
    line = [*shell, "-c", f'. "{path}"; exec /usr/bin/env "$@" /usr/bin/env -0']
    env = {"SLURM_JOB_ID": "8", "PATH": "/bin"}
    said = subprocess.run(line, env=env, capture_output=True, check=True).stdout.decode()
    return dict(entry.split("=", 1) for entry in said.split("\0") if entry)


@pytest.mark.parametrize("shell", [("/bin/sh",), ("bash", "--posix")])
def test_a_shell_gets_what_a_login_sets(home: Path, shell: tuple[str, ...]) -> None:
    """Also values of several lines and functions; what Slurm sets for the job stays."""
    path = home / "run" / "login" / "node1"

    assert login_environment.main([str(path)]) == 0

    found = read_by(shell, path)
    assert found["A"] == "it's\ntwo lines"
    assert found["PATH"].startswith("/opt/site/bin:")
    assert (found["HOME"], found["SHELL"]) == (str(home), str(home / "loginsh"))
    assert found["SLURM_JOB_ID"] == "8"
    assert found["BASH_FUNC_f%%"].startswith("() {")
    called = subprocess.run(["bash", "-c", "f"], env=found, capture_output=True, check=True)
    assert called.stdout == b"called\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_tasks_that_begin_at_once_start_one_login_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = of_user(tmp_path, monkeypatch, "sleep 0.5")
    path = str(home / "login" / "node1")

    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            os._exit(login_environment.main([path]))
        children.append(pid)
    codes = [os.waitpid(pid, 0)[1] for pid in children]

    assert codes == [0] * 4
    assert (home / "started").read_text() == "started\n"


def test_a_login_shell_that_fails_or_hangs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_user(tmp_path, monkeypatch, "exit 3")
    with pytest.raises(Failure, match=r"loginsh has exited with 3: `environment: clean`"):
        login_environment.taken()

    of_user(tmp_path, monkeypatch, "trap 'echo over >$HOME/over' EXIT; sleep 60 & wait")
    with pytest.raises(Failure, match=r"took longer than 0\.5 s"):
        login_environment.taken(0.5)
    assert (tmp_path / "over").exists()  # it could clear up


def test_the_end_of_the_job_does_not_end_a_login_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm tells all processes of a job to end: what a killed login leaves behind harms every later login."""
    home = of_user(tmp_path, monkeypatch, "echo $$ >$HOME/pid; sleep 0.5; touch $HOME/finished")
    path = str(home / "login" / "node1")
    pid = os.fork()
    if pid == 0:
        os._exit(login_environment.main([path]))
    begun = home / "pid"
    while not (begun.exists() and begun.read_text().endswith("\n")):
        time.sleep(0.01)

    os.kill(pid, signal.SIGTERM)
    os.killpg(int(begun.read_text()), signal.SIGTERM)
    code = os.waitpid(pid, 0)[1]

    assert (home / "finished").exists()
    assert code == 0
    assert read_by(("/bin/sh",), Path(path))["HOME"] == str(home)


def test_a_program_that_a_login_has_started_does_not_delay_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_user(tmp_path, monkeypatch, "sleep 5 & echo $! >$HOME/agent")

    found = login_environment.taken(4)

    os.kill(int((tmp_path / "agent").read_text()), signal.SIGKILL)
    assert found[b"HOME"] == os.fsencode(str(tmp_path))


def test_a_user_without_an_entry_in_passwd_has_no_login_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_123)

    with pytest.raises(Failure, match=r"no entry in the passwd database.*environment: clean"):
        login_environment.taken()
