"""A live run on this machine can be ended, whatever file of its record or of its own is damaged or gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run as runspec
from runspec_local.supervisor import process
from tests.support.wait import until

pytestmark = pytest.mark.slow

JOB = """apiVersion: runspec/v1
name: k
provider: local
run: |
  echo begun
  sleep 600
"""
RECORD = ("job.yaml", "plan.json", "facts.json", "journal.jsonl", "lock")
OWN = ("started.json", "job.json", "events.jsonl", "supervisor.lock", "reaper.lock", "cancel")
FILES = [*(f"runs/{name}" for name in RECORD), *(f"local/runs/{name}" for name in OWN)]
VERBS = ("cancel", "destroy")


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def truncate(path: Path) -> None:
    content = path.read_bytes() if path.exists() else b""
    path.write_bytes(content[: len(content) // 2])


def spoil(path: Path) -> None:
    path.write_bytes(b"\0\xff{garbage\n" * 20)


def make_folder(path: Path) -> None:
    remove(path)
    (path / "within").mkdir(parents=True)


def keep_first_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))


KINDS = (remove, truncate, spoil, make_folder)
CASES = [
    (file, kind, VERBS[(f + k) % 2]) for f, file in enumerate(FILES) for k, kind in enumerate(KINDS)
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "st"))
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "st"


def started(home: Path) -> str:
    """Start the job and return its run, once its program runs."""
    assert runspec(["apply", "-d", "job.yaml"]) == 0
    (record,) = (home / "runs").glob("k-*")
    log = home / "local" / "runs" / record.name / "logs" / "0-0.log"
    until(lambda: log.exists() and b"begun" in log.read_bytes())
    return record.name


def left(run: str) -> list[str]:
    """Return what is left of a run on this machine."""
    pids = [*process.belonging(run)]
    supervised = [str(path) for path in process.supervised() if path.name == run]
    return [
        *supervised,
        *(Path(f"/proc/{pid}/cmdline").read_text() for pid in pids),
    ]


@pytest.mark.parametrize(
    ("file", "damage", "verb"),
    CASES,
    ids=[f"{file}-{kind.__name__}-{verb}" for file, kind, verb in CASES],
)
def test_a_run_with_a_damaged_file_is_ended(
    file: str, damage: Callable[[Path], None], verb: str, home: Path
) -> None:
    run = started(home)
    folder, name = os.path.split(file)
    damage(home / folder / run / name)

    code = runspec([verb, run])

    until(lambda: not left(run))
    assert code == 0
    assert verb == "cancel" or not (home / "local" / "runs" / run).exists()
    assert runspec(["destroy", run]) in (0, 2)
    assert not (home / "local" / "runs" / run).exists()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("folder", ["runs", "local/runs"])
def test_a_run_is_ended_if_a_folder_of_it_is_empty(folder: str, verb: str, home: Path) -> None:
    run = started(home)
    shutil.rmtree(home / folder / run)
    if folder == "runs":
        (home / folder / run).mkdir()
        (home / folder / run / "job.yaml").write_text(JOB)

    code = runspec([verb, run])

    until(lambda: not left(run))
    assert code == 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_is_ended_whose_journal_lost_its_end(verb: str, home: Path) -> None:
    """What is left says that the run had not started."""
    run = started(home)
    keep_first_line(home / "runs" / run / "journal.jsonl")

    code = runspec([verb, run])

    until(lambda: not left(run))
    assert code == 0


@pytest.mark.parametrize("folders", [("runs",), ("runs", "local/runs")], ids="+".join)
def test_gc_finds_and_ends_a_live_run_without_a_record(
    folders: tuple[str, ...], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(home)
    for folder in folders:
        shutil.rmtree(home / folder / run)
    capsys.readouterr()

    assert runspec(["gc", "local"]) == 0
    assert f"run {run}, which is alive" in "".join(capsys.readouterr())
    assert left(run)
    assert runspec(["gc", "local", "--yes", "--alive"]) == 0

    until(lambda: not left(run))
    assert not (home / "local" / "runs" / run).exists()
