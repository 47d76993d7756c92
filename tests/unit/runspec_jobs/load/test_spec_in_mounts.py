"""A spec that lies in a folder that it mounts is compared by what it says: a comment makes no new run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from runspec_jobs import api
from runspec_jobs.engine import start_run
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Conflict
from runspec_jobs.plan import model
from runspec_jobs.provider import Client, State, Status
from runspec_jobs.state import run_record
from runspec_jobs.state.run_record import Record

SPEC = """apiVersion: runspec/v1
name: fb
provider: local
mounts: [{name: code, source: ., target: /jobq/code}]
run: echo hi
"""


class Running:
    def state(self, run: str) -> Status:
        return Status(State.RUNNING)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p").mkdir()
    monkeypatch.chdir(tmp_path / "p")
    Path("job.yaml").write_text(SPEC)
    Path("train.py").write_text("print()\n")


def recorded(*settings: str, older: bool = False, ended: bool = True) -> Record:
    """Return the record of a run of job.yaml that has succeeded, or is alive; with *older*, as version 0.2.0 had it."""
    found = api.load("job.yaml", settings=settings).inputs
    made = model.make_plan(found.provider, found.spec, run_record.make_token(), found.facts)
    about = start_run.describe_run(found, cast("Client", None), made.run)
    if older:
        del about["spec_file"]
    base, text = found.base.absolute(), found.text.applied
    of = run_record.create(text, made, found.facts, base, "fb", about=about)
    with of.open_journal() as journal:
        for step in made.steps:
            journal.add("done", step=step.id, answer={})
        if ended:
            journal.add("ended", state=State.SUCCEEDED, reason="", exit_code=0)
    return of


def again(of: Record, *settings: str) -> start_run.Choice | None:
    found = api.load("job.yaml", settings=settings).inputs
    made = model.make_plan(found.provider, found.spec, "zzz999", found.facts)
    client, reporter = cast("Client", Running()), cast("Reporter", SimpleNamespace())
    return start_run.judge_earlier(of, made, client, found, reporter)


OTHER_TEXT = [
    pytest.param(SPEC + "# a comment\n", id="comment"),
    pytest.param("\n\n" + SPEC.replace("name: fb", "name:   fb  "), id="whitespace"),
    pytest.param(SPEC.replace("name: fb", "name: 'fb'"), id="quotes"),
]


@pytest.mark.parametrize("older", [False, True], ids=["record", "older record"])
@pytest.mark.parametrize("text", OTHER_TEXT)
def test_another_text_that_says_the_same_starts_nothing(text: str, older: bool) -> None:
    of = recorded(older=older)
    Path("job.yaml").write_text(text)

    choice = again(of)

    assert choice is not None and "has already succeeded; starting no other" in choice.message


def test_a_comment_does_not_stand_in_the_way_of_a_live_run() -> None:
    of = recorded(ended=False)
    Path("job.yaml").write_text(SPEC + "# a comment\n")

    choice = again(of)

    assert choice is not None and "is already running; starting no other" in choice.message


def test_a_comment_is_none_with_settings_of_the_command_line_either() -> None:
    of = recorded("env.A=b")
    Path("job.yaml").write_text(SPEC + "# a comment\n")

    assert again(of, "env.A=b") is not None
    assert again(of, "env.A=c") is None


@pytest.mark.parametrize("file", ["train.py", "other.yaml"])
def test_another_file_of_the_folder_still_counts(file: str) -> None:
    of = recorded()
    Path("job.yaml").write_text(SPEC + "# a comment\n")
    Path(file).write_text("# a comment\n")

    assert again(of) is None


def test_a_spec_that_says_something_else_still_counts() -> None:
    ended, alive = recorded(), recorded(ended=False)
    Path("job.yaml").write_text(SPEC.replace("echo hi", "echo ho"))

    assert again(ended) is None
    with pytest.raises(Conflict, match="is running with another spec"):
        again(alive)


def test_an_apply_that_was_interrupted_uploads_only_what_it_planned() -> None:
    """The folder with the comment is another upload than the one that was begun."""
    of = recorded(ended=False)
    found = api.load("job.yaml").inputs
    made = model.make_plan(found.provider, found.spec, run_record.make_token(), found.facts)
    base, text = found.base.absolute(), found.text.applied
    about = of.read_memory().about
    begun = run_record.create(text, made, found.facts, base, "fb", about=about)
    with begun.open_journal() as journal:
        run_step = next(step for step in made.steps if step.scope == "run")
        journal.add("begun", step=run_step.id)
    Path("job.yaml").write_text(SPEC + "# a comment\n")

    with pytest.raises(Conflict, match="was started with another spec"):
        start_run.judge_earlier(
            begun,
            model.make_plan(
                found.provider, found.spec, "zzz999", api.load("job.yaml").inputs.facts
            ),
            cast("Client", Running()),
            api.load("job.yaml").inputs,
            cast("Reporter", SimpleNamespace(wait=lambda text: None)),
        )
