"""`list` and the head of `status`: which runs are listed, in which columns."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.api import listing
from runspec_jobs.api.listing import RunFilter, Summary
from runspec_jobs.cli.app import run
from runspec_jobs.cli.commands.verbs import VERBS
from runspec_jobs.cli.views import run_table
from runspec_jobs.state import journal
from runspec_jobs.state_folder import find_runs_folder

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nprovider: local\nproviders: {local: {engine: process}}\n"
SWEEP = """\
sweep: {lr: [0.1, 0.01]}
metric: {name: loss, goal: min, pattern: 'loss=([0-9.]+)'}
run: echo loss=${sweep.lr}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def applied(name: str, text: str = "run: 'true'\n", *, code: int = 0) -> str:
    Path(f"{name}.yaml").write_text(f"{HEAD}name: {name}\n{text}")
    assert run(["apply", f"{name}.yaml"]) == code
    return api.get(name).id


def listed(capsys: Capture, *words: str) -> list[str]:
    """Return the runs that `list` prints below its header."""
    capsys.readouterr()
    assert run(["list", *words]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


def found(capsys: Capture, *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_list_has_a_header_and_all_that_is_known(folder: Path, capsys: Capture) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("0123456789" * 4)
    name = applied("toy", SWEEP)
    capsys.readouterr()

    assert run(["list"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    (row,) = found(capsys, "list")["runs"]

    titles = "run provider state age duration nodes metric cost spec commit outputs logs"
    assert head.split() == titles.split()
    kept = Path(os.environ["RUNSPEC_HOME"]) / "local" / "runs" / name
    assert line.split()[:3] == [name, "local", "succeeded"]
    assert line.split()[6:] == [
        *("s", "2", "x", "1", "loss", "0.01", "-", "toy.yaml", "0123456789"),
        *(str(kept / "outputs"), str(kept / "logs")),
    ]
    assert row["metric"] == {"name": "loss", "task": 1, "value": 0.01}
    assert (row["node_count"], row["task_count"]) == (1, 2)
    assert row["file"] == str(folder / "toy.yaml")
    assert row["commit"] == "0123456789" * 4
    assert 0 <= row["ran_s"] < 60


def test_a_status_says_the_same(folder: Path, capsys: Capture) -> None:
    name = applied("toy", SWEEP)
    capsys.readouterr()

    assert run(["status", "toy"]) == 0

    told = capsys.readouterr().out.splitlines()
    kept = Path(os.environ["RUNSPEC_HOME"]) / "local" / "runs" / name
    assert told[0] == f"{name} succeeded"
    assert told[2] == "  provider: local"
    assert re.match(r"  started: [0-9]+ s ago, 20", told[3])
    assert re.match(r"  duration: [0-9.]+ s", told[4])
    assert told[5:10] == [
        "  asked for: 2 tasks of 1 node",
        "  metric: loss 0.01 (task 1)",
        f"  logs: {kept / 'logs'}",
        f"  outputs: {kept / 'outputs'}",
        f"  spec: {folder / 'toy.yaml'}",
    ]
    row = found(capsys, "status", "toy")
    assert row["outputs"] == str(kept / "outputs")
    assert [node["task"] for node in row["nodes"]] == [0, 1]


def test_the_newest_run_is_at_the_bottom_and_a_limit_keeps_it(capsys: Capture) -> None:
    names = [applied("one"), applied("two"), applied("three", "run: exit 3\n", code=1)]

    assert listed(capsys) == names
    assert listed(capsys, "--limit", "2") == names[1:]
    assert [row["run"] for row in found(capsys, "list", "--limit", "1")["runs"]] == names[2:]


def test_runs_are_chosen_by_state_name_provider_and_age(capsys: Capture) -> None:
    good, bad = applied("one"), applied("other", "run: exit 3\n", code=1)
    Path("live.yaml").write_text(f"{HEAD}name: live\nrun: sleep 600\n")
    assert run(["apply", "-d", "live.yaml"]) == 0
    live = api.get("live").id

    assert listed(capsys, "--alive") == [live]
    assert listed(capsys, "--failed") == [bad]
    assert listed(capsys, "--failed", "--alive") == [bad, live]
    assert listed(capsys, "--name", "o*") == [good, bad]
    assert listed(capsys, "--name", "one", "--since", "1h") == [good]
    assert listed(capsys, "--provider", "local", "--limit", "1") == [live]
    assert listed(capsys, "--provider", "slurm") == []
    time.sleep(1.1)
    assert listed(capsys, "--since", "1s") == []
    assert run(["list", "--name", "none"]) == 0
    assert "none of the 3 runs on record is one of these" in capsys.readouterr().err
    assert run(["destroy", "live"]) == 0
    assert listed(capsys) == [good, bad]
    assert listed(capsys, "--all") == [good, bad, live]


def test_list_requests_no_state_of_runs_that_it_leaves_out(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runspec_local.client import LocalClient

    applied("one")
    applied("live", "run: 'true'\n")
    asked: list[str] = []
    real = LocalClient.state

    def state(self: LocalClient, run: str) -> Any:
        asked.append(run)
        return real(self, run)

    monkeypatch.setattr(LocalClient, "state", state)

    listing.list_summaries(RunFilter(alive=True))
    listing.list_summaries()

    assert asked == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--since", "soon"], "'soon' is not a length of time"),
        (["--limit", "0"], "'0' is not a whole number of at least 1"),
        (["--watch", "--json"], "--json cannot be used with --watch"),
        (["--remote", "--alive"], "--alive cannot be used with --remote"),
    ],
)
def test_a_wrong_choice_is_refused(capsys: Capture, words: list[str], told: str) -> None:
    assert run(["list", *words]) == 2
    assert told in capsys.readouterr().err


ROW = Summary(
    *("mnist-7k2m9p", "mnist", "aws-batch", "succeeded", ""),
    began=time.time() - 7300,
    ran_s=192.0,
    node_count=2,
    task_count=1,
    metric={"name": "loss", "task": 0, "value": 0.31},
    logs="CloudWatch Logs: /aws/batch/job",
    outputs="s3://bucket/runspec/runs/mnist-7k2m9p/outputs",
    file="/home/me/specs/mnist.yaml",
    commit="0123456789" * 4,
)


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (40, "run state age duration"),
        (80, "run provider state age duration nodes metric cost"),
        (120, "run provider state age duration nodes metric cost spec commit"),
        (30, "run state age"),
        (10, "run"),
    ],
)
def test_a_terminal_shows_the_columns_that_have_room(
    monkeypatch: pytest.MonkeyPatch, width: int, titles: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    head, line = run_table.lines([ROW])

    assert head.split() == titles.split()
    assert max(len(head), len(line)) <= max(width, len(ROW.run))


def test_an_age_is_in_its_largest_unit() -> None:
    assert run_table.age(ROW, ROW.began or 0) == "0 s"
    assert run_table.age(ROW, (ROW.began or 0) + 59.4) == "59 s"
    assert run_table.age(ROW, (ROW.began or 0) + 7300) == "2 h"
    assert run_table.age(ROW._replace(began=None), 0.0) == "-"


def test_an_older_record_says_what_it_can(capsys: Capture) -> None:
    """A run that was adopted, or is older than what a list shows, has no such note in its journal."""
    name = applied("toy", SWEEP)
    path = find_runs_folder() / name / "journal.jsonl"
    events, _ = journal.parse(path.read_bytes(), "")
    shorter = [{k: v for k, v in e.items() if k not in ("about", "crc")} for e in events]
    path.write_bytes(b"".join(map(journal.format_line, shorter)))

    (row,) = found(capsys, "list")["runs"]

    assert (row["provider"], row["node_count"], row["task_count"]) == ("local", 1, 2)
    assert (row["file"], row["logs"], row["commit"]) == (None, None, None)
    assert listed(capsys) == [name]


@pytest.mark.slow
def test_5000_runs_are_listed_in_a_few_times_what_reading_them_takes() -> None:
    """Processor time, beside that of reading the journals: seconds say little where processors differ."""
    name = applied("toy", SWEEP)
    folder = find_runs_folder()
    events, _ = journal.parse((folder / name / "journal.jsonl").read_bytes(), "")
    for number in range(4999):
        copied = folder / f"toy-a{number:05}"
        shutil.copytree(folder / name, copied)
        first = {**events[0], "run": copied.name, "number": number + 2}
        told = [{k: v for k, v in e.items() if k != "crc"} for e in (first, *events[1:])]
        (copied / "journal.jsonl").write_bytes(b"".join(map(journal.format_line, told)))

    ratios, lines = [], list[str]()
    for _ in range(3):
        began_s = time.process_time()
        for path in folder.glob("*/journal.jsonl"):
            journal.parse(path.read_bytes(), "")
        read_s = time.process_time() - began_s
        began_s = time.process_time()
        lines = list(run_table.lines(listing.list_summaries()))
        ratios.append((time.process_time() - began_s) / read_s)

    assert len(lines) == 5001
    assert lines[-1].startswith("toy-a04998 ")
    assert min(ratios) < 4  # it was 1.5 to 2.7


# Every verb that uses records of runs or what else is kept beside them
WITH_STATE = """\
list; apply job.yaml; plan job.yaml; status toy; logs toy; outputs toy; fetch toy; destroy toy; destroy --all
destroy --shared; cancel toy; report toy; gc local; adopt local toy; shell toy; tunnel toy 80; cost; prices
resize toy 2; release toy 1"""
WITH_STATE_LINES = WITH_STATE.replace("\n", "; ").split("; ")
# These need none, or keep their own. `doctor` shows what is wrong as a check that fails.
WITHOUT = (
    "validate simulate import schema rehearse explain docs init setup doctor "
    "providers policy trust completion help version"
)


@pytest.mark.parametrize("home", ["/dev/null", "/dev/null/below", "link"])
@pytest.mark.parametrize("line", WITH_STATE_LINES)
def test_a_home_that_is_no_folder_does_not_read_as_no_runs(
    line: str, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("nothing")
    text = "apiVersion: runspec/v1\nname: toy\nprovider: local\ncommand: [echo]\n"
    (tmp_path / "job.yaml").write_text(text)
    monkeypatch.setenv("RUNSPEC_HOME", home)

    assert run(line.split()) == 2

    (*_, what, hint) = capsys.readouterr().err.splitlines()
    assert what.endswith(f"{tmp_path / home} is no folder, so it has no records of runs")
    assert hint == "runspec:   hint: set RUNSPEC_HOME to a folder, or unset it"


def test_every_verb_is_tried_without_a_home_that_needs_it() -> None:
    assert {line.split()[0] for line in WITH_STATE_LINES} | {*WITHOUT.split()} == {*VERBS}
