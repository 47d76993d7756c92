"""`destroy` of many runs at once shows them first, asks at a terminal, and goes on after a failure."""

from __future__ import annotations

import io
import json
import re
import time
import types
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.api import cleanup, listing
from runspec_jobs.api.lifecycle import Run, runs
from runspec_jobs.cli.app import run
from runspec_jobs.errors import RemoteError, UsageError
from runspec_jobs.plan import model
from runspec_jobs.provider import Scope
from runspec_jobs.state import run_record
from runspec_parallelcluster import PROVIDER
from tests.support.slurm import parallelcluster_specs

pytestmark = pytest.mark.process

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nprovider: local\n"
DAY_S = 86_400


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def applied(name: str, command: str, *options: str) -> str:
    Path("job.yaml").write_text(f"{HEAD}name: {name}\nrun: '{command}'\n")
    run(["apply", "job.yaml", *options])
    return run_record.list_runs(name)[-1].run


def left() -> list[str]:
    return [of.id for of in runs()]


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", shown)
    return shown


@pytest.fixture
def three() -> tuple[str, str, str]:
    """Return a run that succeeded, one that failed, and one that is alive."""
    return applied("good", "true"), applied("bad", "exit 3"), applied("busy", "sleep 60", "-d")


def test_destroy_ended_destroys_ended_runs_alone(
    three: tuple[str, str, str], capsys: Capture
) -> None:
    assert run(["destroy", "--ended", "--yes"]) == 0

    told = capsys.readouterr().err
    assert all(f"{name} destroyed" in told for name in three[:2])
    assert left() == [three[2]]


def test_destroy_all_includes_live_runs(three: tuple[str, str, str]) -> None:
    assert run(["destroy", "--all", "--yes"]) == 0

    assert left() == []


def test_older_than_spares_the_young(
    three: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with monkeypatch.context() as later:
        later.setattr(cleanup, "time", types.SimpleNamespace(time=lambda: now + 7.5 * DAY_S))
        assert run(["destroy", "--ended", "--older-than", "8d", "--yes"]) == 0
        spared = left()
        assert run(["destroy", "--ended", "--older-than", "7d", "--yes"]) == 0

    assert spared == list(three)
    assert left() == [three[2]]


def test_without_a_terminal_nothing_is_destroyed_before_yes(
    three: tuple[str, str, str], capsys: Capture
) -> None:
    assert run(["destroy", "--ended"]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert three[0] in told and three[2] not in told and "--yes confirms it" in told
    assert len(left()) == 3


@pytest.mark.parametrize(("answer", "kept"), [("y\n", 1), ("n\n", 3), ("\n", 3), ("", 3)])
def test_at_a_terminal_the_runs_are_shown_and_the_answer_decides(
    answer: str, kept: int, three: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = answering(monkeypatch, answer)

    code = run(["destroy", "--ended"])

    told = shown.getvalue()
    assert three[0] in told and "succeeded" in told and " s old" in told
    assert "destroy 2 runs, with their outputs and logs? [y/N]" in told
    assert (code, len(left())) == (0 if kept == 1 else UsageError.exit_code, kept)


def test_a_run_that_cannot_be_read_is_kept_and_named(
    three: tuple[str, str, str], capsys: Capture
) -> None:
    (run_record.find(three[0]).folder / "journal.jsonl").write_text("{")

    assert run(["destroy", "--all", "--yes"]) == 0

    assert f"{three[0]} is kept, because its record cannot be read" in capsys.readouterr().err
    assert left() == [] and run_record.find(three[0]).folder.is_dir()


@pytest.fixture
def refused(three: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the run of the three whose service refuses to delete anything."""
    destroy = Run.destroy

    def refuse(of: Run, **how: Any) -> None:
        if of.id == three[0]:
            raise RemoteError("the service refused it")
        destroy(of, **how)

    monkeypatch.setattr(Run, "destroy", refuse)
    return three[0]


def test_a_failure_leaves_no_other_run_behind(
    three: tuple[str, str, str], refused: str, capsys: Capture
) -> None:
    code = run(["destroy", "--ended", "--yes"])

    assert code not in (0, 70) and three[1] not in left()
    assert f"{refused} is not destroyed: the service refused it" in capsys.readouterr().err


def test_one_document_of_json_names_the_runs(
    three: tuple[str, str, str], refused: str, capsys: Capture
) -> None:
    capsys.readouterr()
    assert run(["destroy", "--ended", "--yes", "--json"]) != 0

    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (found["destroyed"], found["failed"]) == ([three[1]], [refused])


def test_a_run_that_has_ended_is_destroyed_though_its_record_is_damaged(
    three: tuple[str, str, str],
) -> None:
    (run_record.find(three[0]).folder / "facts.json").write_text("{")

    assert run(["destroy", "--ended", "--yes"]) == 0
    assert left() == [three[2]]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--ended", "good"], "--ended takes no run (got 'good')"),
        (["--all", "--ended"], "--all cannot be used with --ended"),
        (["--older-than", "7d"], "--older-than is for --ended"),
        (["--ended", "--older-than", "week"], "'week' is not a length of time"),
        (["--ended", "--older-than", "7"], "'7' is not a length of time"),
        ([], "no run given"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: list[str], what: str, capsys: Capture
) -> None:
    assert run(["destroy", *words]) == UsageError.exit_code

    assert what in capsys.readouterr().err


def test_nothing_to_destroy_is_said_so(capsys: Capture) -> None:
    assert run(["destroy", "--ended", "--older-than", "1h30m"]) == 0

    assert "no runs to destroy" in capsys.readouterr().err
    assert run(["destroy", "--ended", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"format": "runspec.destroy-runs/v1", "destroyed": [], "failed": []}


def shared_upload() -> None:
    Path("src").mkdir()
    Path("src/a.txt").write_text("a")
    mounts = "mounts: [{name: code, source: ./src, target: /job/code}]"
    Path("job.yaml").write_text(f"{HEAD}name: up\n{mounts}\nrun: 'true'\n")
    assert run(["apply", "job.yaml"]) == 0
    assert run(["destroy", "up"]) == 0


@pytest.mark.parametrize("option", ["--shared", "--site"])
def test_shared_and_site_both_delete_shared_resources(option: str, capsys: Capture) -> None:
    shared_upload()

    assert run(["destroy", option]) == 0

    assert "1 shared resource destroyed" in capsys.readouterr().err
    assert cleanup.list_shared() == cleanup.Kept([], [])


@pytest.mark.parametrize(("answer", "count"), [("y\n", 0), ("n\n", 1)])
def test_at_a_terminal_what_runs_share_is_shown_first(
    answer: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_upload()
    shown = answering(monkeypatch, answer)

    run(["destroy", "--shared"])

    assert "copy ./src" in shown.getvalue() and "[y/N]" in shown.getvalue()
    assert len(cleanup.list_shared().titles) == count


def kept_cluster(folder: Path) -> None:
    """Leave a record of a destroyed run whose cluster is still there."""
    text = b"apiVersion: runspec/v1\nname: train\nprovider: parallelcluster\nrun: 'true'\n"
    of = parallelcluster_specs.spec(run="true")
    given = parallelcluster_specs.facts(of)
    made = model.make_plan(PROVIDER, of, "abc123", given)
    with run_record.create(text, made, given, folder, "job.yaml").open_journal() as journal:
        for step in made.steps:
            journal.add("done", step=step.id, answer={})
            if step.scope is Scope.RUN:
                journal.add("undone", step=step.id)
        journal.add("deleted")


def test_destroy_shared_shows_what_keeping_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_cluster(tmp_path)
    shown = answering(monkeypatch, "n\n")

    assert run(["destroy", "--shared"]) == UsageError.exit_code

    told = shown.getvalue()
    assert told.startswith("runspec: runs share what these steps made:\nrunspec:   ")
    assert "keeping it costs\nrunspec:   the head node, m6i.xlarge, until " in told
    assert "`runspec destroy --shared`: 0.19 USD an hour\n" in told
    assert re.search(r"the disk of the head node, .*: 0\.08 USD a GB and month\n", told)
    assert re.search(r"its dashboard and logs .*: price unknown\n", told)
    assert cleanup.list_shared().titles


def test_a_pipe_is_told_what_is_deleted_and_what_it_cost(capsys: Capture) -> None:
    shared_upload()
    capsys.readouterr()

    assert run(["destroy", "--shared"]) == 0

    told = capsys.readouterr().err
    assert told.index("runspec:   copy ./src") < told.index("1 shared resource destroyed")


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a run on a cluster that answered when the run was started, and does not any more."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'ssh: no route to host' >&2; exit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "mine.yaml").write_text("providers: {slurm: {host: login, workspace: /work}}\n")
    monkeypatch.setenv("RUNSPEC_PROFILE", str(tmp_path / "mine.yaml"))
    Path("job.yaml").write_text("apiVersion: runspec/v1\nprovider: slurm\nname: far\nrun: 'true'\n")
    assert run(["apply", "job.yaml"]) != 0
    of = run_record.list_runs("far")[-1]
    with of.open_journal() as journal:
        for step in of.plan.steps[:-1]:
            journal.add("done", step=step.id, answer={})
    return of.run


def test_a_run_whose_service_does_not_answer_is_named_and_can_be_forgotten(
    unreachable: str, capsys: Capture
) -> None:
    capsys.readouterr()
    assert run(["destroy", "far"]) not in (0, 70)
    refused = capsys.readouterr().err
    assert run(["destroy", "--all", "--yes"]) not in (0, 70)
    assert f"runspec destroy {unreachable} --forget" in capsys.readouterr().err
    assert run(["destroy", "far", "--forget"]) == UsageError.exit_code
    assert left() == [unreachable]

    assert run(["destroy", "far", "--forget", "--yes", "--json"]) == 0

    assert f"{unreachable} is not destroyed: login: " in refused
    assert f"runspec destroy {unreachable} --forget" in refused
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert (document["run"], document["state"]) == (unreachable, "forgotten")
    assert document["left"] and f"not undone: {document['left'][0]}" in told.err
    assert "when 'slurm' answers again: runspec gc slurm" in told.err
    assert left() == []


def test_a_run_that_can_be_destroyed_is_destroyed_although_it_was_to_be_forgotten(
    three: tuple[str, str, str], capsys: Capture
) -> None:
    folder = Path(run_record.find(three[0]).plan.steps[-1].do.params["folder"])
    assert folder.is_dir()

    assert run(["destroy", three[0], "--forget"]) == 0

    assert not folder.exists() and f"{three[0]} destroyed" in capsys.readouterr().err


def test_a_run_that_was_never_submitted_has_no_duration_and_a_destroyed_one_no_places(
    unreachable: str, three: tuple[str, str, str]
) -> None:
    assert run(["destroy", three[0]]) == 0

    found = {one.run: one for one in listing.list_summaries()}

    assert (found[unreachable].state, found[unreachable].ran_s) == ("not-started", None)
    assert (found[three[0]].logs, found[three[0]].outputs) == (None, None)
    assert found[three[1]].logs and found[three[1]].ran_s is not None
