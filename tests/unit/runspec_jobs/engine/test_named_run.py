"""A name means the newest run of the specs in the current folder; of another folder, a run is only ended by its id."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from runspec_jobs import api
from runspec_jobs.api import lifecycle
from runspec_jobs.cli.app import run
from runspec_jobs.cli.live import closing
from runspec_jobs.engine import named_run
from runspec_jobs.errors import UsageError
from runspec_jobs.logs.log_end import LogEnd
from runspec_jobs.plan import model
from runspec_jobs.provider import State, Status
from runspec_jobs.state import run_group, run_record
from runspec_jobs.state.run_record import Record

Capture = pytest.CaptureFixture[str]


def put(
    folder: Path, file: str | None = "job.yaml", name: str = "job", *, deleted: bool = False
) -> Record:
    """Put the record of a run that was never begun on record, of the spec *file* in *folder*."""
    folder.mkdir(exist_ok=True, parents=True)
    text = f"apiVersion: runspec/v1\nname: {name}\nprovider: local\ncommand: ['true']\n"
    about = None
    if file is not None:
        (folder / file).write_text(text)
        about = {"provider": "local", "file": str(folder / file)}
    found = api.load(text.encode(), base=folder).inputs
    made = model.make_plan(found.provider, found.spec, run_record.make_token(), found.facts)
    of = run_record.create(text.encode(), made, found.facts, folder, name, about=about)
    if deleted:
        with of.open_journal() as journal:
            journal.add("deleted")
    return of


def left() -> list[str]:
    return [of.run for of in run_record.list_all() if not of.read_memory().deleted]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Give two folders; the second is the current one."""
    (tmp_path / "A").mkdir()
    (tmp_path / "B").mkdir()
    monkeypatch.chdir(tmp_path / "B")
    return tmp_path / "A", tmp_path / "B"


def test_destroy_twice_leaves_the_older_run(two: tuple[Path, Path], capsys: Capture) -> None:
    older, newer = put(two[1]), put(two[1])

    assert run(["destroy", "job"]) == 0
    capsys.readouterr()
    assert run(["destroy", "job", "--json"]) == 0

    told = capsys.readouterr()
    assert json.loads(told.out)["run"] == newer.run
    assert f"'job' means {newer.run}, its newest run, which was destroyed" in told.err
    assert run(["destroy", "job"]) == 0
    assert f"{newer.run} is already destroyed" in capsys.readouterr().err
    assert left() == [older.run]


@pytest.mark.parametrize("file", ["job.yaml", None])
@pytest.mark.parametrize(
    "words", [["cancel"], ["destroy"], ["destroy", "--forget", "--yes"], ["destroy", "--yes"]]
)
def test_a_run_of_another_folder_is_named_with_its_file_and_left_alone(
    two: tuple[Path, Path], words: list[str], file: str | None, capsys: Capture
) -> None:
    of = put(two[0], file)

    assert run([words[0], "job", *words[1:]]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert f"{of.run} is of another folder: {two[0] / file if file else two[0]}" in told
    assert f"hint: if that run is meant, give its id: runspec {words[0]} {of.run}" in told
    assert left() == [of.run] and of.read_memory().want == "run"

    assert run([words[0], of.run, *words[1:]]) == 0
    assert of.read_memory().want == words[0]


@pytest.mark.parametrize(("answer", "wants"), [("y\n", "destroy"), ("n\n", "run"), ("", "run")])
def test_at_a_terminal_the_answer_decides_about_a_run_of_another_folder(
    two: tuple[Path, Path], answer: str, wants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, shown = put(two[0]), Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", shown)

    code = run(["destroy", "job"])

    assert f"{two[0]}/job.yaml. destroy {of.run}? [y/N]" in shown.getvalue()
    assert (code, of.read_memory().want) == (
        0 if wants == "destroy" else UsageError.exit_code,
        wants,
    )


def test_a_run_of_this_folder_comes_before_a_newer_one_elsewhere(two: tuple[Path, Path]) -> None:
    here = put(two[1])
    elsewhere = put(two[0])

    assert run(["destroy", "job"]) == 0

    assert here.read_memory().deleted and left() == [elsewhere.run]
    assert run(["destroy", "job"]) == 0
    assert left() == [elsewhere.run]


def test_a_run_of_a_folder_below_is_clear_as_long_as_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = put(tmp_path / "one"), put(tmp_path / "two")

    assert run(["cancel", "job"]) == UsageError.exit_code
    told = capsys.readouterr().err
    assert "'job' is the name of several specs" in told
    assert f"{second.run} is of {tmp_path}/two/job.yaml" in told
    assert f"{first.run} is of {tmp_path}/one/job.yaml" in told
    assert run(["destroy", first.run]) == 0
    assert run(["cancel", "job"]) == 0
    assert second.read_memory().want == "cancel"


def test_two_files_of_one_folder_are_two_specs_and_a_renamed_one_is_not(
    two: tuple[Path, Path], capsys: Capture
) -> None:
    first, second = put(two[1], "small.yaml"), put(two[1], "big.yaml")

    assert run(["destroy", "job"]) == UsageError.exit_code
    assert f"{first.run} is of {two[1]}/small.yaml" in capsys.readouterr().err
    (two[1] / "small.yaml").unlink()
    assert run(["destroy", "job"]) == 0

    assert left() == [first.run] and second.read_memory().deleted


def test_a_link_to_the_folder_is_the_folder(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("A")
    of = put(tmp_path / "link")
    monkeypatch.chdir(two[0])

    assert run(["destroy", "job"]) == 0
    assert of.read_memory().deleted


def test_reading_verbs_say_that_a_run_is_of_another_folder(
    two: tuple[Path, Path], capsys: Capture
) -> None:
    of = put(two[0])

    assert run(["status", "job"]) == 0

    assert f"{of.run} is of another folder: {two[0]}/job.yaml" in capsys.readouterr().err
    assert lifecycle.get("job").file == two[0] / "job.yaml"


def test_the_hint_at_the_end_names_a_run_of_another_folder_by_its_id(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    far = lifecycle.Run(put(two[0]))
    ended = Status(State.FAILED, "", 1)
    monkeypatch.setattr(lifecycle.Run, "log_end", lambda *_, **__: LogEnd(0, 0, None))

    assert list(closing.log_end(far, ended)) == [
        f"the end of the log: runspec logs {far.id} --tail 20"
    ]
    near = lifecycle.Run(put(two[1]))
    assert list(closing.log_end(near, ended)) == ["the end of the log: runspec logs job --tail 20"]


def test_sizes_of_a_destroyed_spec_stay_destroyed(two: tuple[Path, Path], capsys: Capture) -> None:
    older = put(two[1], name="job-n1")
    newer = [put(two[1], name=f"job-n{size}") for size in (1, 2)]
    text = api.load(
        {
            "apiVersion": "runspec/v1",
            "name": "job",
            "provider": "local",
            "command": ["true"],
            "scaling": {"nodes": [1, 2]},
        }
    )
    run_group.keep(text.spec, text.text.applied)

    assert run(["destroy", "job"]) == 0
    capsys.readouterr()
    assert run(["destroy", "job"]) == 0

    told = capsys.readouterr().err
    assert all(f"{of.run} is already destroyed" in told for of in newer)
    assert left() == [older.run]
    assert run(["destroy", older.run]) == 0
    assert run(["destroy", "job"]) == 0


def test_a_folder_that_is_gone_is_no_folder_of_a_run(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = put(two[0])
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert named_run.explain_doubt("job", of)
    assert not named_run.explain_doubt(of.run, of)


def test_a_damaged_record_that_may_be_the_newest_ends_no_other_run(
    two: tuple[Path, Path], capsys: Capture
) -> None:
    older, newer = put(two[1]), put(two[1])
    (newer.folder / "journal.jsonl").write_text("{")

    assert run(["destroy", "job"]) == UsageError.exit_code

    assert (
        "the newest run of 'job' may be one whose record cannot be read" in capsys.readouterr().err
    )
    assert not older.read_memory().deleted


def test_apply_names_the_file_of_a_run_of_another_folder(
    two: tuple[Path, Path], capsys: Capture
) -> None:
    of = put(two[0])
    with of.open_journal() as journal:
        journal.add("begun", step=of.plan.steps[-1].id)
    Path("job.yaml").write_text((two[0] / "job.yaml").read_text() + "env: {A: b}\n")

    assert run(["apply", "job.yaml"]) == 4

    told = capsys.readouterr().err
    assert f"{of.run} of {two[0]}/job.yaml was started with another spec" in told
    assert "hint: give this spec another name, or start another run with apply --new" in told


def test_plan_diff_compares_with_the_run_of_this_folder(
    two: tuple[Path, Path], capsys: Capture
) -> None:
    here = put(two[1])
    put(two[0])

    assert run(["plan", "--diff", "job.yaml"]) == 0

    assert f"no changes since {here.run}" in capsys.readouterr().out


def test_a_run_of_which_nothing_was_submitted_does_not_wait_in_a_report(
    two: tuple[Path, Path], capsys: Capture
) -> None:
    of = put(two[1])

    assert run(["report", "job"]) == 0

    assert f"{of.run} not-started" in capsys.readouterr().out


def test_destroying_many_shows_whose_they_are(two: tuple[Path, Path], capsys: Capture) -> None:
    of = put(two[0])

    assert run(["destroy", "--all"]) == UsageError.exit_code

    (row,) = [line for line in capsys.readouterr().err.splitlines() if of.run in line]
    assert row.endswith(f"{two[0]}/job.yaml")
