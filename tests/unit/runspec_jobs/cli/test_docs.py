"""`runspec docs`: the pages that the package has, and the names of pages in messages."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs import manual
from runspec_jobs.cli.app import run
from tests.support.root import ROOT

Capture = pytest.CaptureFixture[str]
FOLDERS = ("runner", "providers", "emulators")


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each text of the code that a user may read: all constants, and the help of the verbs."""
    for file in (path for top in FOLDERS for path in (ROOT / top).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        # Docstrings are for readers of the code, but for those of options, which are the help.
        docs = {id(n.value) for n in nodes if isinstance(n, ast.Expr)} - {
            id(n.body[0].value)
            for n in nodes
            if "options" in file.parts
            and isinstance(n, ast.ClassDef)
            and isinstance(n.body[0], ast.Expr)
        }
        yield from (
            (file, n.value)
            for n in nodes
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs
        )


@functools.cache
def list_texts() -> list[tuple[Path, str]]:
    """Return all texts. Each worker of the tests imports this module, and one of them needs the texts."""
    return list(texts())


def test_the_pages_are_those_of_the_documentation() -> None:
    assert manual.PAGES.resolve() == ROOT / "docs"


def test_a_page_and_the_list_of_pages_are_not_asked_for_together(capsys: Capture) -> None:
    assert run(["docs", "tutorial", "--list"]) == 2

    assert "--list cannot be used with PAGE" in capsys.readouterr().err


def test_without_a_page_docs_lists_all(capsys: Capture) -> None:
    assert run(["docs"]) == 0
    printed = capsys.readouterr().out

    assert run(["docs", "--list"]) == 0

    assert capsys.readouterr().out == printed
    listed = re.findall(r"^  ([\w-]+) ", printed, re.MULTILINE)
    assert sorted(listed) == sorted(set(manual.list_page_names()) - {"index"})
    assert printed.startswith("Start\n")


@pytest.mark.parametrize("asked", ["tutorial", "tutorial.md", "docs/tutorial.md"])
def test_a_page_is_printed_as_it_is_written(asked: str, capsys: Capture) -> None:
    assert run(["docs", asked]) == 0

    assert capsys.readouterr().out == (ROOT / "docs" / "tutorial.md").read_text()


def test_a_section_is_printed_to_the_next_heading_of_its_level(capsys: Capture) -> None:
    assert run(["docs", "install#what-other-programs-are-needed"]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("## What other programs are needed\n")
    assert printed.count("\n## ") == 0 and printed.endswith("says what is missing.\n")


def test_a_section_ends_at_no_heading_inside_a_block_of_code() -> None:
    text = "# A\n\n## B\n\n```sh\n# no heading\n```\nend\n\n# C\n"

    assert manual.cut_section(text, "b") == "## B\n\n```sh\n# no heading\n```\nend\n"
    assert manual.cut_section(text, "no-heading") is None


def test_a_written_anchor_before_a_heading_begins_its_section() -> None:
    text = (
        '# A\n\n<a id="old"></a>\n\n## B\nb\n\n### C\nc\n\n## D\nsee <a id="in"></a>\nd\n\n## E\n'
    )

    assert manual.cut_section(text, "old") == "## B\nb\n\n### C\nc\n"
    assert manual.cut_section(text, "in") == 'see <a id="in"></a>\nd\n'


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("tutorail", "there is no page 'tutorail'\nrunspec:   hint: did you mean 'tutorial'?\n"),
        ("../README", "there is no page '../README'\nrunspec:   hint: runspec docs --list\n"),
        (
            "profile#trusst",
            "the page 'profile' has no section 'trusst'\nrunspec:   hint: did you mean 'trust'?\n",
        ),
    ],
)
def test_a_page_or_section_that_is_not_there_is_an_error(
    asked: str, said: str, capsys: Capture
) -> None:
    assert run(["docs", asked]) == 2

    assert capsys.readouterr() == ("", f"runspec: {said}")


@pytest.mark.parametrize(
    ("asked", "place"),
    [("RUNNABLE", "aws-batch"), ("docker", "images"), ("resume", "resume"), ("oom", "exit-codes")],
)
def test_explain_names_pages_with_words_that_no_table_explains(
    asked: str, place: str, capsys: Capture
) -> None:
    assert run(["explain", asked]) == 2

    hint = capsys.readouterr().err.partition("hint: pages with these words: ")[2]
    assert hint.count("runspec docs ") <= 3
    assert f"runspec docs {place}" in hint


def test_programs_get_the_pages_or_the_text_of_one(capsys: Capture) -> None:
    assert run(["docs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert run(["docs", "init", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)

    assert listed["text"] is None and listed["pages"][0]["name"] == "tutorial"
    assert one["pages"] == [] and one["text"] == (ROOT / "docs" / "init.md").read_text()


def test_no_message_names_a_file_that_an_installation_lacks() -> None:
    """Messages say `runspec docs PAGE`, or `runspec docs PAGE#SECTION`."""
    assert [(str(f), text) for f, text in list_texts() if re.search(r"docs/[\w-]+\.md", text)] == []


def test_each_page_and_section_that_a_message_names_is_there() -> None:
    named = [
        link
        for _, text in list_texts()
        for link in re.findall(r"runspec docs ([a-z][\w-]*(?:#[\w-]+)?)", text)
    ]

    assert len(named) > 40
    for link in set(named):
        assert run(["docs", link]) == 0, link
