"""`status` reads, and ends what the run does not need as a step of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.errors import CredentialsError, RemoteError
from runspec_jobs.provider import NodeStatus, State, Status
from runspec_local.client import LocalClient

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
Capture = pytest.CaptureFixture[str]


class Reconciling(LocalClient):
    asked: ClassVar[list[str]] = []

    def reconcile(self, run: str) -> Sequence[str]:
        self.asked.append("reconcile")
        return ["ended 1 node"] if self.asked.count("reconcile") == 1 else []


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> list[str]:
    """Apply a job whose second node waits until somebody ends it; give the order of requests."""
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(f"{HEAD}run: 'true'\n")
    assert run(["apply", "job.yaml", "--detach"]) == 0
    capsys.readouterr()
    asked: list[str] = []

    def state(self: LocalClient, run: str) -> Status:
        asked.append("state")
        over = State.CANCELLED if "reconcile" in asked else State.WAITING
        return Status(State.RUNNING, "", None, (NodeStatus(0, 1, 1, over),))

    monkeypatch.setattr(LocalClient, "state", state)
    monkeypatch.setattr(Reconciling, "asked", asked)
    # A class of its own: Python remembers of a class that it has what a protocol asks for.
    monkeypatch.setattr("runspec_local.client.LocalClient", Reconciling)
    return asked


def test_status_reports_nodes_that_it_ended(applied: list[str], capsys: Capture) -> None:
    assert run(["status", "job", "--json"]) == 0

    out, err = capsys.readouterr()
    assert [node["state"] for node in json.loads(out)["nodes"]] == ["cancelled"]
    assert "ended 1 node" in err
    assert applied == ["state", "reconcile", "state"]
    assert run(["status", "job"]) == 0
    assert applied[3:] == ["state", "reconcile"], "there was nothing left to end"


def test_list_and_the_status_of_the_api_end_nothing(applied: list[str]) -> None:
    from runspec_jobs.api import get

    assert run(["list"]) == 0
    assert get("job").status().state is State.RUNNING

    assert "reconcile" not in applied


def test_a_status_is_shown_though_nothing_may_be_ended(
    applied: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: LocalClient, run: str) -> Sequence[str]:
        raise RemoteError("you may only read")

    monkeypatch.setattr(Reconciling, "reconcile", refused)

    assert run(["status", "job"]) == 0

    out, err = capsys.readouterr()
    assert "running" in out
    assert "you may only read" in err


def test_nothing_is_ended_where_the_service_does_not_answer(
    applied: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: LocalClient, run: str) -> Status:
        raise RemoteError("no route to host")

    monkeypatch.setattr(LocalClient, "state", away)

    assert run(["status", "job"]) == 0

    assert applied == []
    assert "no route to host" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["status", "job"], ["status", "job", "--json"]])
def test_the_status_of_a_running_job_without_a_valid_login_is_not_waiting(
    words: list[str], applied: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """`list` goes on, because it shows all other runs, too."""

    def expired(self: LocalClient, run: str) -> Status:
        raise CredentialsError("the login has expired", "log in again")

    monkeypatch.setattr(LocalClient, "state", expired)

    assert run(words) == 5
    assert "the login has expired" in capsys.readouterr().err
    assert run(["list"]) == 0
    assert "job-" in capsys.readouterr().out
