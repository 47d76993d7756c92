"""Runs that an older version began on this machine: the new one lists, shows, fetches, cancels and destroys them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.state import run_record
from runspec_local.supervisor import process
from tests.support.old_versions import run_of, thawed
from tests.support.profiles import own_profile

Capture = pytest.CaptureFixture[str]
ENDED = ("array", "ended", "elastic", "failed")
PROFILE = {"engine": "process", "grace": "1s", "secrets": {"a": "env:RUNSPEC_V0_NOT_SET"}}
# Holds the lock of a supervisor until it is told to end, as one of any version does.
HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the state folder of the older version; nothing of its runs is alive."""
    found = thawed("local", tmp_path) / "home"
    monkeypatch.setenv("RUNSPEC_HOME", str(found))
    monkeypatch.chdir(tmp_path)
    return found


@pytest.fixture
def alive(home: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Give processes in the places of the supervisor and of the node of the run that goes on."""
    name = run_of("running")
    folder = home / "local/runs" / name
    line = [sys.executable, "-c", HOLDER, str(folder / "supervisor.lock")]
    pipe = subprocess.PIPE
    supervisor = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True)
    assert supervisor.stdout is not None and supervisor.stdout.readline() == "held\n"
    env = {**os.environ, "RUNSPEC_RUN": name}
    node = subprocess.Popen(["sleep", "600"], env=env, text=True, start_new_session=True)
    who = {
        "pid": supervisor.pid,
        "ticks": process.start_ticks(supervisor.pid),
        "boot": process.boot_id(),
    }
    (folder / "started.json").write_text(json.dumps(who))
    yield [supervisor, node]
    for one in (supervisor, node):
        one.kill()
        one.communicate()


def told(capsys: Capture, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_runs_of_an_older_version_are_listed(home: Path, capsys: Capture) -> None:
    rows = {row["name"]: row for row in told(capsys, "list", "--all")["runs"]}

    states = {name: row["state"] for name, row in rows.items()}
    assert states == {
        "array": "succeeded",
        "elastic": "succeeded",
        "ended": "succeeded",
        "failed": "failed",
        "gone": "destroyed",
        "cut-off": "not-started",
        "running": "failed",  # its supervisor is of another start of the machine
    }
    assert {row["provider"] for row in rows.values()} == {"local"}
    assert all(row["began"] > 1.7e9 for row in rows.values())


@pytest.mark.process
def test_runs_that_have_no_number_are_in_the_order_of_the_clock(home: Path) -> None:
    """New ones come after them, whatever the clock says."""
    old = [of.name for of in run_record.list_all()]
    Path("job.yaml").write_text(
        "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: ['true']\n"
    )

    assert run(["apply", "job.yaml"]) == 0

    assert old == ["ended", "failed", "array", "elastic", "running", "cut-off", "gone"]
    assert [of.name for of in run_record.list_all()] == [*old, "job"]
    assert run_record.find("job").read_memory().number == 1


@pytest.mark.parametrize("name", ENDED)
def test_how_a_run_has_ended_is_told_as_then(home: Path, capsys: Capture, name: str) -> None:
    found = told(capsys, "status", name)

    assert found["state"] == ("failed" if name == "failed" else "succeeded")
    assert found["exit_code"] == (3 if name == "failed" else 0)
    nodes = {"array": 3, "elastic": 2}.get(name, 1)
    assert len(found["nodes"]) == nodes
    if name == "elastic":
        (change,) = found["changes"]
        assert (change["nodes"], change["generation"]) == (2, 1)


@pytest.mark.parametrize("name", ENDED)
def test_logs_of_an_older_version_are_shown(home: Path, capsys: Capture, name: str) -> None:
    assert run(["logs", name]) == 0
    if name != "elastic":
        assert f"hello from {run_of(name)}" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*ENDED, "running"])
def test_outputs_of_an_older_version_are_fetched(home: Path, tmp_path: Path, name: str) -> None:
    assert run(["fetch", name, "here"]) == 0

    files = {
        str(path.relative_to(tmp_path / "here")): path.read_text()
        for path in (tmp_path / "here").rglob("*")
        if path.is_file()
    }
    kept = {
        "array": {f"task-{task}/out/a.txt": "kept\n" for task in range(3)},
        "elastic": {"out/step.txt": "3\n"},
    }
    assert files == kept.get(name, {"out/a.txt": "kept\n"})


@pytest.mark.process
def test_a_run_that_goes_on_is_seen_and_cancelled(
    alive: list[subprocess.Popen[str]], capsys: Capture
) -> None:
    supervisor, _ = alive
    assert told(capsys, "status", "running")["state"] == "running"
    assert run(["logs", "running"]) == 0
    assert capsys.readouterr().out == f"hello from {run_of('running')}\n"

    assert run(["cancel", "running"]) == 0

    assert supervisor.wait(10) == -signal.SIGTERM
    assert told(capsys, "status", "running")["state"] == "cancelled"


@pytest.mark.process
def test_a_run_that_goes_on_is_destroyed_with_its_nodes(
    home: Path, alive: list[subprocess.Popen[str]]
) -> None:
    supervisor, node = alive
    name = run_of("running")

    assert run(["destroy", "running"]) == 0

    assert supervisor.wait(10) == -signal.SIGTERM
    assert node.wait(10) < 0
    assert not (home / "local/runs" / name).exists()


@pytest.mark.parametrize("name", [*ENDED, "cut-off", "running"])
def test_every_run_is_destroyed_and_nothing_of_it_stays(
    home: Path, capsys: Capture, name: str
) -> None:
    of = run_of(name)

    assert run(["cancel", name]) == 0
    assert run(["destroy", name]) == 0

    assert not (home / "local/runs" / of).exists()
    assert {row["run"]: row["state"] for row in told(capsys, "list", "--all")["runs"]}[
        of
    ] == "destroyed"


@pytest.mark.process
@pytest.mark.parametrize(
    "name, state", [("ended", "succeeded"), ("running", "running"), ("failed", "failed")]
)
def test_an_unchanged_job_file_means_its_run(
    alive: list[subprocess.Popen[str]], tmp_path: Path, capsys: Capture, name: str, state: str
) -> None:
    """The plan of then is another one, word for word; what failed is run again, as always."""
    old = run_record.find(name)
    own_profile().write_text(json.dumps({"providers": {"local": PROFILE}}))
    Path("job.yaml").write_bytes(old.job)

    code = run(["apply", "job.yaml", *(["--detach"] if name == "running" else [])])

    said = capsys.readouterr().err
    assert code == (1 if name == "failed" else 0), said
    assert (f"run {old.run} " in said) == (name != "failed")
    assert ("starting no other" in said) == (name != "failed")


@pytest.mark.process
def test_another_job_file_is_refused_while_the_run_goes_on(
    alive: list[subprocess.Popen[str]], capsys: Capture
) -> None:
    old = run_record.find("running")
    own_profile().write_text(json.dumps({"providers": {"local": PROFILE}}))
    Path("job.yaml").write_bytes(old.job.replace(b"sleep 600", b"sleep 601"))

    assert run(["apply", "job.yaml", "--detach"]) == 4
    assert f"{old.run} of {old.base} is running with another spec" in capsys.readouterr().err
