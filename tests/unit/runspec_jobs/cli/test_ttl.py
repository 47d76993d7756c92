"""A run with a `ttl` is destroyed by a later command, once it is over: its own, ended, and needed by nobody."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runspec_jobs.api import cleanup
from runspec_jobs.api.lifecycle import runs
from runspec_jobs.cli.app import run
from runspec_jobs.engine import end
from runspec_jobs.errors import RemoteError
from runspec_jobs.state import run_record

pytestmark = pytest.mark.process

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nprovider: local\noutputs: [{name: out, path: /job/out}]\n"
HOUR_S = 3_600
DESTROY_EXPIRED = cleanup.destroy_expired


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def applied(name: str, command: str = "true", *options: str, more: str = "ttl: 1h\n") -> str:
    Path("job.yaml").write_text(f"{HEAD}name: {name}\nrun: '{command}'\n{more}")
    run(["apply", "job.yaml", *options])
    return run_record.list_runs(name)[-1].run


def later(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Have commands carry out what is to be done so many hours from now."""
    at = time.time() + hours * HOUR_S
    monkeypatch.setattr(cleanup, "destroy_expired", lambda: DESTROY_EXPIRED(at))


def left() -> list[str]:
    return [of.id for of in runs()]


def test_a_run_stays_for_its_time_and_goes_with_the_next_command(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    name = applied("fit")
    kept = applied("kept", more="")
    later(monkeypatch, 0.9)
    run(["list"])
    assert left() == [name, kept]
    run(["status", "fit"])
    assert "  kept until: 1 h after its end\n" in capsys.readouterr().out

    later(monkeypatch, 1.1)
    code = run(["list", "--json"])

    told = capsys.readouterr()
    assert (code, left()) == (0, [kept])
    assert {one["run"] for one in json.loads(told.out)["runs"]} == {name, kept}
    assert f"runspec: {name} ended" in told.err
    assert "and its ttl of 1 h is over: destroyed" in told.err
    assert not run_record.list_lifetimes()
    run(["list"])
    assert capsys.readouterr().err == ""


def test_a_run_that_is_alive_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    name = applied("busy", "sleep 60", "-d")

    for hours in (1000, 2000):
        later(monkeypatch, hours)
        run(["list"])

    assert left() == [name]
    run(["destroy", "busy"])
    run(["list"])
    assert not run_record.list_lifetimes()


def test_the_time_counts_from_the_end_that_was_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody followed the run: it counts from the command that found it ended."""
    name = applied("fit", "true", "-d")
    record = run_record.list_runs("fit")[-1]
    deadline = time.monotonic() + 30
    while runs()[0].status().state != "succeeded":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert record.read_memory().status is None

    later(monkeypatch, 5)
    run(["list"])
    assert left() == [name]
    later(monkeypatch, 5.9)
    run(["list"])
    assert left() == [name]
    later(monkeypatch, 6.1)
    run(["list"])
    assert left() == []


def test_an_output_that_a_live_run_mounts_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    first = applied("first", 'echo x > "${outputs.out}/x"')
    mount = "mounts: [{name: m, source: run://first/out, target: /job/m}]\n"
    second = applied("second", "sleep 60", "-d", more=mount)
    later(monkeypatch, 2)
    run(["list"])
    assert left() == [first, second]

    run(["destroy", "second"])
    run(["list"])

    assert left() == []


def test_a_job_of_a_chain_stays_for_the_jobs_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        f"{HEAD}name: first\nrun: 'true'\nttl: 1h\n",
        f"{HEAD}name: second\nneeds: [first]\nrun: sleep 60\n",
    ]
    Path("chain.yaml").write_text("---\n".join(jobs))
    run(["apply", "chain.yaml", "--detach"])
    run(["apply", "chain.yaml", "--detach"])
    first = run_record.list_runs("first")[-1]
    deadline = time.monotonic() + 60
    while runs()[0].status().state != "succeeded":
        assert time.monotonic() < deadline
        time.sleep(0.05)

    for hours in (2, 4):
        later(monkeypatch, hours)
        run(["list"])

    assert first.run in left()


def test_a_failure_is_told_once_an_hour_and_changes_no_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    name = applied("fit", more="ttl: 1m\n")

    def fail(*_: object) -> None:
        raise RemoteError("the service does not answer")

    monkeypatch.setattr(end, "destroy", fail)
    later(monkeypatch, 0.5)
    capsys.readouterr()

    codes = [run(["list"]), run(["list"])]
    later(monkeypatch, 1.5)
    codes.append(run(["list"]))

    told = capsys.readouterr().err
    assert codes == [0, 0, 0]
    assert told.count("not destroyed: the service does not answer") == 2
    assert left() == [name]


def test_a_time_that_is_too_short_is_refused(capsys: Capture) -> None:
    Path("job.yaml").write_text(f"{HEAD}name: fit\nrun: 'true'\nttl: 0s\n")

    assert run(["validate", "job.yaml"]) == 2
    assert "job.yaml:6:6: ttl: 0 s leaves nobody the time to fetch" in capsys.readouterr().err
