"""What `runspec explain` says is what the pages say, and the messages of the pages are those of the code."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import get_args

import pytest

from runspec_jobs import errors, manual
from runspec_jobs.api import machine
from runspec_jobs.cli.app import run
from runspec_jobs.cli.json_formats import base
from runspec_jobs.options import suggestions
from runspec_jobs.spec.model import Spec
from tests.support.root import ROOT

Capture = pytest.CaptureFixture[str]
ENTRIES = manual.read_entries()
MESSAGES = [entry for entry in ENTRIES if entry.kind == manual.MESSAGE]
CODES = {
    error.exit_code
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.RunspecError)
}


def template(node: ast.AST) -> str | None:
    """Return a text of the code, with {} for each value that is filled in; None for other code."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(template(part) or "{}" for part in parts)
    return None


@functools.cache
def texts() -> Sequence[str]:
    """Return the texts of all modules of the core, the providers and the agent, but no docstrings."""
    return list(read_texts())


def read_texts() -> Iterator[str]:
    files = [f for top in ("runner", "providers") for f in (ROOT / top).rglob("*.py")]
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text())))
        docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        yield from (t for node in nodes if id(node) not in docs and (t := template(node)))


@pytest.mark.parametrize("message", [entry.title for entry in MESSAGES])
def test_each_message_of_the_page_is_in_the_code(message: str) -> None:
    wanted = manual.PLACEHOLDER.sub("{}", message)

    assert [text for text in texts() if wanted in text]


def test_a_message_is_found_by_what_is_printed() -> None:
    def printed(entry: manual.Entry) -> str:
        return manual.PLACEHOLDER.sub("toy-7k2m9q", f"runspec: job.yaml: {entry.title}, now")

    assert len(MESSAGES) > 60
    assert [e.title for e in MESSAGES if e not in manual.find(printed(e))] == []


def test_a_message_says_what_it_means_and_what_to_do() -> None:
    assert {tuple(title for title, _ in entry.texts) for entry in MESSAGES} == {
        ("meaning", "what to do")
    }
    assert [e.title for e in MESSAGES for _, text in e.texts if text[-1:] not in (".", "`")] == []


@pytest.mark.parametrize("code", sorted({*CODES, errors.OK, errors.CHANGES, errors.DETACHED}))
def test_each_exit_code_of_runspec_is_explained(code: int) -> None:
    assert "exit code of runspec" in [entry.kind for entry in manual.find(str(code))]


@pytest.mark.parametrize("state", get_args(base.RunState))
def test_each_state_is_explained(state: str) -> None:
    assert "state of a run" in [entry.kind for entry in manual.find(state)]


def test_every_row_is_found_by_each_of_its_names() -> None:
    terms = [entry for entry in ENTRIES if entry not in MESSAGES]

    assert len(terms) > 90
    assert [e for e in terms for name in e.list_names() if e not in manual.find(name)] == []
    assert [e for e in MESSAGES if e not in manual.find(e.title)] == []


@pytest.mark.parametrize(
    ("asked", "title", "says"),
    [
        ("75", "75", "It is safe to repeat the same command"),
        ("137", "137", "SIGKILL"),
        ("cuda", "CUDA, cuDNN, NCCL", "drivers come with machines"),
        ("gang scheduling", "gang scheduling, all-or-nothing", "`nodes`: no node starts"),
        ("cron", "cron, cronjob, schedule, timetable", "runspec docs after"),
        ("preemptible", "preemptible, low priority, interruptible", "capacity: spot"),
        ("hyperparameters", "hyperparameter, hpo, grid search, trial", "runspec docs params"),
        ("Leases", "lease", "after its last heartbeat"),
        ("tries", "try, tries", "write: attempt, attempts"),
        ("retry.spot_attempts", "spot_attempts", "default: "),
        ("mounts.source", "source", "`store://"),
        ("providers.aws-batch.max_vcpus", "max_vcpus", "set by: anyone"),
        ("memory out of", "perhaps out of memory", "what to do: "),
        ("runspec: there is no run 'toy'", "there is no run 'NAME'", "`runspec list` shows"),
    ],
)
def test_a_word_is_explained(asked: str, title: str, says: str, capsys: Capture) -> None:
    assert run(["explain", *asked.split()]) == 0

    shown = capsys.readouterr().out
    assert f"{title} (" in shown and says in shown
    assert re.search(r"^more: runspec docs [a-z-]+$", shown, re.MULTILINE)


def test_words_that_are_neither_codes_nor_terms_are_those_of_messages(capsys: Capture) -> None:
    assert run(["explain", "machine", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)["entries"]
    assert len(found) > 3
    assert {(row["kind"], row["page"]) for row in found} == {("message", "docs/troubleshooting.md")}


@pytest.mark.parametrize(
    ("asked", "hint"), [("lese", "did you mean 'lease'?"), ("0815", "name an exit code, a state")]
)
def test_explain_refuses_an_unknown_word(asked: str, hint: str, capsys: Capture) -> None:
    assert run(["explain", asked]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"nothing explains '{asked}'" in printed.err and hint in printed.err


def test_a_field_is_that_of_the_part_before_it() -> None:
    found = manual.find("retry.attempts")

    assert [(entry.kind, entry.title) for entry in found] == [("field of Retry", "attempts")]
    assert manual.find("cluster.attempts") == []


def test_every_field_of_a_spec_is_explained() -> None:
    assert [name for name in Spec.model_fields if not manual.find(_written(name))] == []


def _written(name: str) -> str:
    return Spec.model_fields[name].alias or name


def test_a_link_leads_to_a_page_or_an_address(capsys: Capture) -> None:
    assert run(["explain", "77"]) == 0

    assert "profiles (runspec docs profile#trust)" in capsys.readouterr().out


def test_the_api_explains_too() -> None:
    assert [entry.page for entry in machine.explain("gone")] == ["docs/exit-codes.md"]


def test_words_to_explain_are_completed() -> None:
    assert suggestions.explained("leas") == ["lease"]
    assert "75" in suggestions.explained("7")
