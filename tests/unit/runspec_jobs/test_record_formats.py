"""Every record that runspec reads has a format, and one of a newer version is refused in words."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import record_formats as inside
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.elastic.fence import FencingToken
from runspec_agent.elastic.policy import State
from runspec_agent.retry import attempts
from runspec_agent.store.base import Bucket
from runspec_jobs import __version__, record_formats
from runspec_jobs.cli.app import run
from runspec_jobs.errors import Newer, NoAnswer
from runspec_jobs.provider import elastic_tasks, job_manifest
from runspec_jobs.state import journal, probe_leftovers, run_record
from tests.support.old_versions import FROZEN

HEAD = (
    "apiVersion: runspec/v1\nname: {}\nprovider: local\nproviders: {{local: {{engine: process}}}}\n"
)
Capture = pytest.CaptureFixture[str]
UPGRADE = "upgrade runspec"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> run_record.Record:
    """Give a run that has ended, beside another one."""
    monkeypatch.chdir(tmp_path)
    for name in ("other", "job"):
        outputs = "outputs: [{name: out, path: /job/out}]\n"  # or fetch has nothing to read
        Path(f"{name}.yaml").write_text(HEAD.format(name) + outputs + "command: [echo, hi]\n")
        assert run(["apply", f"{name}.yaml"]) == 0
    capsys.readouterr()
    return run_record.find("job")


def rewritten(path: Path, **fields: Any) -> None:
    """Give a file of JSON other members, as a newer version would."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def event(**fields: Any) -> bytes:
    """Give a line of a journal, as every version reads it."""
    body = json.dumps(fields)
    return f'{{"crc": "{zlib.crc32(body.encode()):08x}", {body[1:]}\n'.encode()


NEWER = {"format": "runspec.x/v9", "runspec": "9.1.0"}


@pytest.mark.process
@pytest.mark.parametrize("name", ["journal.jsonl", "plan.json", "facts.json"])
def test_a_file_of_a_newer_version_is_refused_in_words(
    made: run_record.Record, capsys: Capture, name: str
) -> None:
    """What wrote it and what to do are told, other runs are listed, and nothing of it is touched."""
    path = made.folder / name
    if name == "journal.jsonl":
        _, rest = path.read_bytes().split(b"\n", 1)
        path.write_bytes(event(event="born", at=1.0, **NEWER) + b"not a line of today\n" + rest)
    else:
        rewritten(path, **NEWER)
    before = path.read_bytes()

    for verb in ("logs", "fetch", "cancel", "destroy"):
        assert run([verb, made.run]) == 69, verb
        told = capsys.readouterr().err
        assert f"{path}: runspec 9.1.0 wrote it, in the format 'runspec.x/v9'" in told, verb
        assert UPGRADE in told, verb
    assert path.read_bytes() == before

    assert run(["list"]) == 0
    listed = capsys.readouterr().out
    assert "other-" in listed
    if name == "journal.jsonl":  # of a run that has ended, nothing else is needed for a list
        assert "unreadable" in listed
        assert f"why: {path}: runspec 9.1.0 wrote it" in listed
    if name != "facts.json":
        assert run(["apply", "job.yaml"]) == 69
    assert run(["status", "other"]) == 0


@pytest.mark.process
def test_a_journal_that_a_newer_version_went_on_with_is_refused(
    made: run_record.Record, capsys: Capture
) -> None:
    """It names its format in a line of its own, before the first that this version would misread."""
    with (made.folder / "journal.jsonl").open("ab") as file:
        file.write(event(event="format", at=1.0, **NEWER) + event(event="want", desire="cancel"))

    assert run(["status", made.run]) == 69
    assert "runspec 9.1.0 wrote it" in capsys.readouterr().err


@pytest.mark.process
def test_an_event_that_cannot_be_understood_is_no_bug(
    made: run_record.Record, capsys: Capture
) -> None:
    with (made.folder / "journal.jsonl").open("ab") as file:
        file.write(event(event="ended", at=1.0, state="paused", reason="", exit_code=None))

    assert run(["status", made.run]) == 69
    assert "this version of runspec cannot read it: 'paused'" in capsys.readouterr().err
    assert run(["list"]) == 0
    assert "unreadable" in capsys.readouterr().out


@pytest.mark.process
def test_an_event_of_an_unknown_kind_changes_nothing(
    made: run_record.Record, capsys: Capture
) -> None:
    """A newer version may add kinds without a new format."""
    with (made.folder / "journal.jsonl").open("ab") as file:
        file.write(event(event="admired", at=1.0, by="somebody"))

    assert run(["status", made.run]) == 0


@pytest.mark.process
def test_options_that_this_version_does_not_know_are_named(
    made: run_record.Record, capsys: Capture
) -> None:
    path = made.folder / "facts.json"
    options = {**json.loads(path.read_text())["options"], "warp": 9}
    rewritten(path, options=options, runspec="9.1.0")

    assert run(["logs", made.run]) == 69
    told = capsys.readouterr().err
    assert f"{path}: this version of runspec refuses warp" in told
    assert "use runspec 9.1.0 that started this run" in told


@pytest.mark.process
def test_a_sequence_of_a_newer_version_is_not_overwritten(
    made: run_record.Record, capsys: Capture
) -> None:
    path = Path(os.environ["RUNSPEC_HOME"], "sequence")
    path.write_bytes(b"runspec.sequence/v9\nof-another-form\n")

    assert run(["apply", "--new", "job.yaml"]) == 69

    assert f"{path}: a newer version of runspec wrote it" in capsys.readouterr().err
    assert path.read_bytes() == b"runspec.sequence/v9\nof-another-form\n"


@pytest.mark.process
@pytest.mark.parametrize("name", ["job.json", "started.json"])
def test_a_local_run_of_a_newer_version_is_refused_in_words(
    made: run_record.Record, capsys: Capture, name: str
) -> None:
    path = Path(os.environ["RUNSPEC_HOME"], "local/runs", made.run, name)
    rewritten(path, format="runspec.local/v9")
    if name == "started.json":
        lines = (made.folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
        (made.folder / "journal.jsonl").write_bytes(
            b"".join(line for line in lines if b'"ended"' not in line)
        )
        assert run(["list"]) == 0
        assert f"why: {path}: a newer version of runspec wrote it" in capsys.readouterr().out
        assert run(["status", made.run]) == 69
        assert UPGRADE in capsys.readouterr().err

    assert run(["destroy", made.run]) == 69
    told = capsys.readouterr().err
    assert f"{path}: a newer version of runspec wrote it, in the format 'runspec.local/v9'" in told
    assert path.exists()
    assert run(["apply", "--new", "other.yaml"]) == 0  # it stands in no other run's way


@pytest.mark.process
def test_saves_of_a_newer_version_are_not_fetched(made: run_record.Record, capsys: Capture) -> None:
    saved = Path(os.environ["RUNSPEC_HOME"], "local/runs", made.run, "outputs/out/0/0/.runspec")
    (saved / "manifest.json").write_text('{"format": "runspec.outputs/v9", "sets": []}')

    assert run(["fetch", made.run, "here"]) == 69

    told = capsys.readouterr().err
    assert "manifest.json" in told and "newer version of runspec" in told
    assert "runspec.outputs/v9" in told
    assert UPGRADE in told
    assert not Path("here").exists()


@pytest.mark.process
def test_every_record_names_its_format_and_version(made: run_record.Record) -> None:
    home = Path(os.environ["RUNSPEC_HOME"])
    born = json.loads((made.folder / "journal.jsonl").read_text().splitlines()[0])
    of_local = [home / "local/runs" / made.run / name for name in ("job.json", "started.json")]

    found = [
        born,
        *(json.loads((made.folder / f"{n}.json").read_text()) for n in ("plan", "facts")),
    ]

    names = ["runspec.journal/v1", "runspec.plan/v1", "runspec.facts/v1"]
    assert [one["format"] for one in found] == names
    assert {one["runspec"] for one in found} == {__version__}
    assert {json.loads(p.read_text())["format"] for p in of_local} == {"runspec.local/v1"}


@pytest.mark.process
def test_a_run_of_a_version_that_named_no_formats_is_read(
    made: run_record.Record, capsys: Capture
) -> None:
    for name in ("plan.json", "facts.json"):
        found = json.loads((made.folder / name).read_text())
        del found["format"], found["runspec"]
        (made.folder / name).write_text(json.dumps(found))
    lines = (made.folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    first = event(event="born", at=1.0, run=made.run, digest="sha256:0")
    (made.folder / "journal.jsonl").write_bytes(first + b"".join(lines[1:]))

    assert run(["logs", made.run]) == 0
    assert capsys.readouterr().out == "hi\n"
    assert run(["destroy", made.run]) == 0


def test_leftovers_of_a_newer_versions_probe_are_refused(tmp_path: Path) -> None:
    session = probe_leftovers.Session.begin("local", "probe-1", {})
    assert json.loads(session.path.read_text())["format"] == probe_leftovers.FORMAT
    rewritten(session.path, **NEWER)

    with pytest.raises(Newer, match=r"runspec 9\.1\.0 wrote it"):
        probe_leftovers.list_sessions("local")


# What lies in a store


def test_the_record_of_a_run_of_a_newer_version_is_refused_in_words() -> None:
    content = json.dumps({"format": "runspec.run/v9"}).encode()

    with pytest.raises(Newer) as caught:
        job_manifest.read_record(content, "the record of a-123456")

    assert caught.value.message == (
        "the record of a-123456: a newer version of runspec wrote it, in the format "
        f"'runspec.run/v9'; runspec {__version__} reads 'runspec.run/v1'"
    )
    assert caught.value.hint == record_formats.HINT


def test_a_record_that_came_in_part_is_no_answer() -> None:
    with pytest.raises(NoAnswer, match="cannot be read"):
        job_manifest.read_record(b'{"format": "runs', "the record of a-123456")


def test_the_state_of_an_elastic_job_of_a_newer_version_is_refused_in_words() -> None:
    state = json.dumps({"format": "runspec.elastic/v9", "stage": "over"}).encode()

    with pytest.raises(Newer, match="the state of task 0 of this elastic job: a newer version"):
        elastic_tasks.elastic_end({"elastic": {"min": 1, "max": 2}, "nodes": 1}, 1, lambda _: state)


@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch", "slurm"])
def test_how_an_older_elastic_job_has_ended_is_read(provider: str) -> None:
    (state,) = FROZEN.glob(f"{provider}/store/**/runs/elastic-*/elastic/0/state")
    record_ = json.loads((state.parents[2] / "record.json").read_text())

    assert elastic_tasks.elastic_end(record_, 1, lambda _: state.read_bytes()) == (
        0,
        "the program has ended with 0",
    )


class Stored(Bucket):
    """A store that has one thing, wherever it is looked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def get(self, key: str) -> bytes:
        return self.content


def test_an_agent_refuses_the_record_of_a_newer_version_in_words() -> None:
    """It names the record, and ends with 2: trying again does not help."""
    bucket = Stored(json.dumps({"format": "runspec.run/v9", "run": "a-123456"}).encode())

    with pytest.raises(Failure, match=r"runs/a-123456/record\.json: a newer version") as caught:
        attempts.read_record(bucket, "runs/a-123456/")

    assert caught.value.code == USAGE


def test_an_agent_reads_a_record_that_names_no_format() -> None:
    assert attempts.read_record(Stored(b'{"run": "a"}'), "runs/a/") == {"run": "a"}


def test_a_claim_of_a_newer_version_is_no_duplicate_that_ends_well() -> None:
    assert inside.holder(b"job-1", "runs/a/claim") == "job-1"

    with pytest.raises(Failure, match="runs/a/claim: a newer version"):
        inside.holder(b'runspec.claim/v2\n{"job": "job-1"}', "runs/a/claim")


@pytest.mark.parametrize("kind", [State, FencingToken])
def test_an_agent_refuses_the_elastic_records_of_a_newer_version(kind: Any) -> None:
    with pytest.raises(Failure, match="a newer version of runspec wrote it"):
        kind.of(b'{"format": "runspec.elastic/v9"}')


def test_core_and_agent_agree_on_formats() -> None:
    assert job_manifest.FORMAT == inside.RUN
    assert elastic_tasks.ELASTIC == inside.ELASTIC


def test_the_check_of_formats_ignores_what_is_no_mapping() -> None:
    record_formats.check([], "runspec.x/v1", "x")
    assert journal.FORMAT == "runspec.journal/v1"
