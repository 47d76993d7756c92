"""Runs on AWS Batch, rehearsed, that another machine takes up from the bucket."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from runspec_jobs.state import run_record
from tests.support.aws.emulated_account import Capture, await_job, calls, jobs, left, write

pytestmark = pytest.mark.slow
Machine = Callable[[str], None]


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Go on as another machine, which has a state folder of its own and the same profile."""
    return lambda name: monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / name))


def out(capsys: Capture, *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run(list(words))
    return code, capsys.readouterr().out


def only_run() -> str:
    (of,) = run_record.list_all()
    return of.run


def test_a_run_that_has_ended_is_adopted_with_its_log_and_outputs(
    region: Region, tmp_path: Path, on: Machine, capsys: Capture
) -> None:
    on("one")
    outputs = [{"name": "made", "path": "/job/made"}]
    spec = write('echo hello\necho 1 > "${outputs.made}/a"\n', outputs=outputs)
    assert run(["apply", spec]) == 0
    name = only_run()
    on("other")

    assert out(capsys, "adopt", "aws-batch", name) == (0, f"{name}\n")

    code, said = out(capsys, "status", name, "--json")
    assert (code, json.loads(said)["state"]) == (0, "succeeded")
    assert out(capsys, "logs", "job") == (0, "hello\n")
    assert run(["fetch", "job", str(tmp_path / "got")]) == 0
    assert (tmp_path / "got" / "made" / "a").read_text() == "1\n"
    assert run(["destroy", name]) == 0
    assert run(["destroy", "--site"]) == 0
    assert left(region, tmp_path) == []


CHAIN = """\
apiVersion: runspec/v1
name: prepare
provider: aws-batch
outputs: [{name: data, path: /job/data}]
run: echo 1 > ${outputs.data}/a
---
apiVersion: runspec/v1
name: train
provider: aws-batch
mounts: [{name: data, source: run://prepare/data, target: /job/in}]
run: cat ${mounts.data}/a
"""


def test_a_chain_goes_on_from_an_adopted_run_of_another_machine(
    region: Region, on: Machine, capsys: Capture
) -> None:
    on("one")
    Path("all.yaml").write_text(CHAIN)
    assert run(["apply", "all.yaml", "--until", "prepare"]) == 0
    name = only_run()
    on("other")
    assert run(["adopt", "aws-batch", name]) == 0

    code, _ = out(capsys, "apply", "all.yaml")

    assert code == 0
    assert len(calls(region, "SubmitJob")) == 2  # the run that was adopted is not repeated
    assert out(capsys, "logs", "train") == (0, "1\n")


def test_two_machines_hold_a_run_and_both_end_it(
    region: Region, tmp_path: Path, on: Machine, capsys: Capture
) -> None:
    on("one")
    assert run(["apply", write("sleep 600"), "--detach"]) == 0
    name = only_run()
    await_job(region)
    on("other")
    assert run(["adopt", "aws-batch"]) == 0

    assert run(["cancel", "job"]) == 0

    assert [job["running"] for job in jobs(region)] == [False]
    assert len(calls(region, "SubmitJob")) == 1
    on("one")
    assert json.loads(out(capsys, "status", name, "--json")[1])["state"] == "cancelled"
    assert run(["destroy", name]) == 0
    on("other")
    assert run(["destroy", name]) == 0
    assert run(["destroy", "--site"]) == 0
    assert left(region, tmp_path) == []


def test_list_remote_shows_runs_of_other_machines(
    region: Region, on: Machine, capsys: Capture
) -> None:
    on("one")
    assert run(["apply", write("true")]) == 0
    here = listed(capsys, "list")
    assert json.loads(out(capsys, "list", "--remote", "--json")[1])["runs"] == []
    on("other")

    there = listed(capsys, "list", "--remote")

    assert there == here
    (row,) = json.loads(out(capsys, "list", "--remote", "--json")[1])["runs"]
    assert {key for key, value in row.items() if value is not None} == set(REMOTE)


# The rest of what a list shows is on record where the run was started.
REMOTE = ("run", "name", "provider", "state", "reason", "began")


def listed(capsys: Capture, *words: str) -> list[dict[str, Any]]:
    """Return what a list shows of its runs that other machines know as well."""
    code, text = out(capsys, *words, "--json")
    assert code == 0
    assert "job-" in out(capsys, *words)[1]
    return [{key: row[key] for key in REMOTE} for row in json.loads(text)["runs"]]
