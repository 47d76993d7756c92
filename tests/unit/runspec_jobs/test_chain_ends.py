"""What has ended stays as it was: `cancel` changes nothing of it, and a job that was skipped is shown as skipped."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runspec_jobs.api.chains import SKIPPED, JobStatus, apply_chain, get_chain, load_chain
from runspec_jobs.cli.app import run
from runspec_jobs.state import chain_record

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
