"""What status and report say of the changes of nodes: for all whose nodes may change, and for no other job."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.engine import clients
from runspec_jobs.provider import MembershipChange, RemoteError
from tests.support.change_records import at, record

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
ELASTIC = HEAD + "cluster: {nodes: {min: 1, max: 2}}\n"
STEPS = 'run: echo 1 >> "$RUNSPEC_PROGRESS"\n'
METRIC = "metric: {name: loss, goal: min, pattern: 'loss=(.*)'}\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def applied(text: str) -> Path:
    """Run a job; give where its nodes keep their records."""
    Path("job.yaml").write_text(text)
    assert run(["apply", "job.yaml"]) == 0
    (found,) = Path(os.environ["RUNSPEC_HOME"], "local", "runs").iterdir()
    return found


def changed(below: Path) -> None:
    """Write down three changes, as nodes would have done."""
    more: dict[int, dict[str, Any]] = {
        2: {"before": 2, "nodes": 1, "came": [], "gap_s": 7.25},
        3: {"gap_s": None, "lost_steps": None, "first_step": None},
        4: {"lost": [], "lost_steps": None, "exact": False},
    }
    for number, fields in more.items():
        (below / at(number)).write_bytes(record(number, **fields))


def asked(capsys: Capture, *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def said(capsys: Capture, *words: str) -> list[str]:
    capsys.readouterr()
    assert run(list(words)) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("folder")
def test_status_and_report_show_each_change_and_their_sum(capsys: Capture) -> None:
    """The job itself ran from its beginning to its end with the same nodes; its first generation took one step."""
    below = applied(ELASTIC + STEPS)
    (first,) = asked(capsys, "status", "job")["changes"]
    assert (first["generation"], first["before"], first["first_step"]) == (1, 0, 1)
    changed(below)

    status, report = asked(capsys, "status", "job"), asked(capsys, "report", "job", "--follow")

    assert [(c["gap_s"], c["lost_steps"]) for c in status["changes"]] == [
        *((None, None), (7.25, 3), (None, None), (1.5, None))
    ]
    assert status["changes"][1]["lost"] == [{"node": 2, "host": "i", "why": "it was silent"}]
    assert status["changes_total"] == {
        "changes": 3,
        "gap_s": 8.75,
        "gap_unknown": 0,
        "lost_steps": 3,
        "lost_unknown": 1,
        "exact": False,
    }
    assert {name: report[name] for name in ("changes", "changes_total")} == {
        name: status[name] for name in ("changes", "changes_total")
    }
    assert report["state"] == "succeeded"

    lines = said(capsys, "status", "job")
    assert any("generation 2" in line and "without a step: 7.2 s" in line for line in lines)
    assert "  changes of nodes: 3; without a step: at most 8.8 s" in "\n".join(lines)

    lines = said(capsys, "report", "job", "--html", "page.html")
    assert lines[0] == "changes of nodes: 3"
    assert [line.split()[5:8] for line in lines[4:]][1] == ["to", "1", "7.25"]
    assert "lost node 2 (i, it was silent)" in lines[5]
    page = Path("page.html").read_text()
    assert "lost node 2 (i, it was silent)" in page and "at most 8.8 s" in page


@pytest.mark.usefixtures("folder")
def test_a_report_has_the_metric_and_the_costs_of_changes(capsys: Capture) -> None:
    below = applied(ELASTIC + METRIC + "run: echo loss=2.5\n")
    changed(below)

    found = asked(capsys, "report", "job")
    lines = said(capsys, "report", "job", "--html", "page.html")

    assert [row["value"] for row in found["tasks"]] == [2.5]
    assert found["changes_total"]["changes"] == 3
    assert "place" in lines[0] and "changes of nodes: 3" in lines
    assert "Changes of nodes" in Path("page.html").read_text()


@pytest.mark.usefixtures("folder")
def test_a_job_whose_nodes_stay_is_not_asked_for_changes(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(HEAD + METRIC + "run: echo loss=1\n")
    clients = watched(monkeypatch, RemoteError("it was asked"))

    status, report = asked(capsys, "status", "job"), asked(capsys, "report", "job")

    assert not any("changes" in name for name in (*status, *report))
    assert clients and not any(client.asked for client in clients)


@pytest.mark.usefixtures("folder")
def test_where_nobody_knows_the_changes_it_is_said_and_why(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(ELASTIC + STEPS)
    watched(monkeypatch, RemoteError("the store gives no answer"))

    found = asked(capsys, "status", "job")

    assert (found["changes"], found["changes_unknown"]) == (None, "the store gives no answer")
    words = "changes of nodes: not known: the store gives no answer"
    assert f"  {words}" in said(capsys, "status", "job")
    assert said(capsys, "report", "job")[0] == words
    assert run(["destroy", "job"]) == 0
    assert "changes" not in asked(capsys, "status", "job")  # there is nothing left of it


class Watched:
    """A client that notes whether it was asked for changes, and does not know them."""

    def __init__(self, client: Any, error: Exception) -> None:
        self.error, self.asked = error, False
        for name in set(dir(client)) - set(dir(self)):
            setattr(self, name, getattr(client, name))

    def changes(self, run: str) -> Sequence[MembershipChange]:
        self.asked = True
        raise self.error


def watched(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[Watched]:
    made: list[Watched] = []
    connect = clients.connect

    def connected(of: Any) -> Any:
        provider, client, facts = connect(of)
        made.append(Watched(client, error))
        return provider, made[-1], facts

    monkeypatch.setattr(clients, "connect", connected)
    return made
