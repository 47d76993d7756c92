"""What has ended stays as it was: `cancel` changes nothing of it, and a job that was skipped is shown as skipped."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runspec_jobs.api.chains import SKIPPED, JobStatus, apply_chain, get_chain, load_chain
from runspec_jobs.api.lifecycle import Run
from runspec_jobs.cli.app import run
from runspec_jobs.state import chain_record
from runspec_local.provider import LocalProvider

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nprovider: local\nproviders: {local: {engine: process}}\n"
Said = Callable[..., str]


def job(name: str, script: str, more: str = "") -> str:
    return f"{HEAD}name: {name}\n{more}run: |\n  {script}\n"


NEXT = job("next", "true", "needs: [first]\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "all.yaml"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Return what a command prints."""

    def call(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run([*words]) == code
        return "".join(capsys.readouterr())

    return call


def apply(path: Path, *texts: str) -> dict[str, str]:
    """Apply the chain, and return the reason of each job that was started."""
    path.write_text("---\n".join(texts))
    reasons: dict[str, str] = {}

    def hear(status: JobStatus) -> None:
        if status.state == "waiting":
            reasons[status.job] = status.reason

    apply_chain(load_chain(path), on_status=hear)
    return reasons


@pytest.mark.parametrize("script", ["true", "exit 1"])
def test_cancel_of_a_chain_that_has_ended_changes_nothing(
    path: Path, said: Said, script: str
) -> None:
    apply(path, job("first", script), NEXT)
    before = said("status", "all")

    words = said("cancel", "all")
    document = json.loads(said("cancel", "all", "--json"))

    assert "nothing of the chain all runs" in words
    assert document["want"] == "run"
    assert said("status", "all") == before


def test_cancel_of_a_chain_that_has_ended_ends_what_its_runs_do_not_need(
    path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(path, job("first", "true"), NEXT)
    monkeypatch.setattr(Run, "reconcile", lambda run, status: [f"{run.name} needs no machine"])

    words = said("cancel", "all")

    assert "first needs no machine" in words and "next needs no machine" in words


def test_cancel_of_a_chain_that_was_destroyed_changes_nothing(path: Path, said: Said) -> None:
    apply(path, job("first", "true"), NEXT)
    said("destroy", "all")

    assert "nothing of the chain all runs" in said("cancel", "all")
    assert ", destroyed" in said("status", "all")


def test_cancel_of_a_chain_with_a_job_that_has_not_started_is_noted(path: Path, said: Said) -> None:
    path.write_text("---\n".join((job("first", "true"), NEXT)))
    said("apply", str(path), "--only", "first")

    said("cancel", "all")

    assert ", cancelled" in said("status", "all")


def test_cancel_between_two_jobs_of_an_apply_starts_no_job(path: Path, said: Said) -> None:
    """Every run that the chain has then has ended, those of the next jobs in an earlier apply."""
    apply(path, job("first", "true"), job("next", "exit 1", "needs: [first]\n"))
    at_work, go_on = threading.Event(), threading.Event()
    ends: list[JobStatus] = []

    def wait(status: JobStatus) -> None:
        if status.job == "first":
            at_work.set()
            go_on.wait(60)

    chain = load_chain(path)
    applying = threading.Thread(target=lambda: ends.extend(apply_chain(chain, on_status=wait)))
    applying.start()
    at_work.wait(60)
    said("cancel", "all")
    go_on.set()
    applying.join()

    assert [one.state for one in ends] == ["succeeded", SKIPPED]
    assert ends[1].reason == "the chain was cancelled"


def test_a_job_that_was_skipped_in_the_last_apply_is_shown_so(path: Path, said: Said) -> None:
    apply(path, job("first", "true"), NEXT)
    apply(path, job("first", "exit 1"), NEXT)

    shown = json.loads(said("status", "all", "--json"))["jobs"][1]

    assert (shown["state"], shown["reason"], shown["run"]) == (SKIPPED, "first has failed", None)
    said("report", "all", "--html", str(path.with_suffix(".html")))
    assert "first has failed" in path.with_suffix(".html").read_text()


def test_a_job_that_is_applied_again_is_not_shown_as_skipped(path: Path) -> None:
    apply(path, job("first", "exit 1"), NEXT)
    apply(path, job("first", "true"), NEXT)

    chain = get_chain("all")

    assert chain is not None and [one.state for one in chain.status()] == ["succeeded"] * 2


def test_a_skipped_job_has_no_run_that_stays_with_the_record_of_a_destroyed_chain(
    path: Path, said: Said
) -> None:
    apply(path, job("first", "exit 1"), NEXT)
    said("destroy", "all")

    (record,) = chain_record.all_chains()

    assert record.skipped == {}


def test_a_skipped_job_that_starts_again_is_explained_by_what_it_was_skipped_for(
    path: Path,
) -> None:
    """This holds for a job whose run its service has canceled, and for one that had no run."""
    lone = job("lone", "true", "needs: {first: ended, next: succeeded}\n")
    apply(path, job("first", "exit 1"), NEXT, lone)

    reasons = apply(path, job("first", "true"), NEXT, lone)

    assert reasons["next"] == "it was skipped because first has failed"
    assert reasons["lone"] == "it was skipped because next was skipped"


PREPARE = job(
    "prepare",
    "echo $V > ${outputs.data}/a",
    "outputs: [{name: data, path: /job/data}]\nenv: {V: x}\n",
)
READ = job(
    "read",
    "cat ${mounts.data}/a",
    "mounts: [{name: data, source: 'run://prepare/data', target: /job/in}]\n",
)


def foresee(path: Path, said: Said, *texts: str) -> dict[str, str]:
    """Return why each job would start again, by its plan."""
    path.write_text("---\n".join(texts))
    document = json.loads(said("plan", str(path), "--json"))
    return {one["job"]: one["why"] for one in document["jobs"] if one["why"]}


def test_a_plan_says_why_a_job_starts_in_the_words_of_apply(
    path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = job("fails", "exit 1")
    after = job("after", "true", "needs: [fails]\n")
    changed = (PREPARE.replace("V: x", "V: y"), READ, fails, after)
    assert foresee(path, said, PREPARE, READ, fails, after) == {}
    apply(path, PREPARE, READ, fails, after)

    with monkeypatch.context() as offline:
        offline.setattr(LocalProvider, "connect", None)
        unchanged = foresee(path, said, PREPARE, READ, fails, after)
        foreseen = foresee(path, said, *changed)
        text = said("plan", str(path))
    told = apply(path, *changed)

    assert unchanged == {"fails": told["fails"], "after": "it was skipped because fails has failed"}
    assert foreseen.pop("read") == "only if what it reads from prepare changes"
    assert foreseen == {job: told.get(job, foreseen[job]) for job in foreseen}
    assert foreseen["prepare"] == "changed: env.V"
    assert "job prepare\n     starts: changed: env.V\n" in text


def test_a_plan_knows_that_another_task_is_read(path: Path, said: Said) -> None:
    sweep = PREPARE.replace("env: {V: x}", "sweep: {v: [1, 2]}")
    first, second = (READ.replace("/data'", f"/data?task={task}'") for task in (0, 1))
    apply(path, sweep, first)

    foreseen = foresee(path, said, sweep, second)

    assert foreseen == apply(path, sweep, second)


def test_a_plan_of_a_chain_that_is_done_starts_nothing_again(path: Path, said: Said) -> None:
    apply(path, PREPARE, READ)

    assert foresee(path, said, PREPARE, READ) == {}
