"""Every block of the pages is of a known language and right; every command in them is one that exists."""

from __future__ import annotations

import contextlib
import json
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

import pytest
import typer
import yaml

from bench.__main__ import main as bench
from runspec_jobs.api.specs import check_file
from runspec_jobs.cli.app import run
from runspec_jobs.cli.commands import command_line
from runspec_jobs.errors import UsageError
from tests.support.doc_blocks import CHECKED, PAGES, RUN, SHELL, Block, blocks, inline
from tests.support.named_tests import is_defined
from tests.support.root import ROOT

Words = Sequence[str]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LANGUAGES = {"sh", "text", "yaml", "json", "toml", "python", "csv"}
BLOCKS = [block for page in PAGES for block in blocks(page)]
# Words that stand for what a user types; numbers are in their place where the option takes a number.
INLINE = sorted({(page, line) for page in PAGES if page != "CHANGELOG.md" for line in inline(page)})
# Those that leave nothing out.
SIMULATIONS = [line for _, line in INLINE if re.match(r"runspec simulate .*--samples", line)]


class Incomplete(Exception):
    """A word is missing: a sentence leaves out what does not matter for it."""


def runspec(words: Words) -> None:
    """Read the words as the command line does; this raises UsageError for a verb or an option that is not there."""
    try:
        read(words)
    except UsageError as exc:
        if re.search(r"^missing |requires an argument$", exc.message):
            raise Incomplete from exc
        raise


def read(words: Words) -> None:
    _, rest = command_line.split_program(words)
    if rest:
        command_line.read(command_line.find_verb(rest[0]), rest[1:])


def pip(words: Words) -> None:
    assert words[0] == "install"
    (wanted,) = [word for word in words[1:] if not word.startswith("-")]
    name, _, extras = wanted.rstrip("]").partition("[")
    if name in (".", "runspec-jobs"):
        assert set(filter(None, extras.split(","))) <= {*PROJECT["optional-dependencies"]}
    else:
        assert name in (ROOT / "docs" / "provider.md").read_text()


def python(words: Words) -> None:
    assert words[:2] == ["-m", "bench"]
    app = typer.Typer(add_completion=False)
    app.command()(bench)
    with typer.main.get_command(app).make_context("bench", list(words[2:])):
        pass


def script(words: Words) -> None:
    """Run a script of the checkout that makes files in a folder; the folder here is a temporary one."""
    program, folder = words
    with tempfile.TemporaryDirectory() as room:
        made = Path(room, folder)
        with (
            mock.patch.object(sys, "argv", [program, str(made)]),
            pytest.raises(SystemExit, match=r"^0$"),
        ):
            runpy.run_path(str(ROOT / program), run_name="__main__")
        assert any(made.iterdir())


def change_folder(words: Words) -> None:
    assert (ROOT / words[0]).is_dir()


def export(words: Words) -> None:
    assert re.fullmatch(r"[A-Z_]+=\S+", words[0])


def set_up(words: Words) -> None:
    assert list(words) in ([], ["--test"], ["--help"])


def of_a_cloud(words: Words) -> None:
    """Accept the commands of other vendors' tools that the pages need; they are not installed here."""
    known = (
        "configure",
        "s3 mb s3://",
        "s3 sync ",
        "batch describe-job-definitions ",
        "role assignment create --assignee-object-id",
    )
    assert " ".join(words).startswith(known)


def activate(words: Words) -> None:
    assert list(words) == [".venv/bin/activate"]


def git(words: Words) -> None:
    assert list(words) == ["pull"]


def any_file(words: Words) -> None:
    assert len(words) == 1


def jq(words: Words) -> None:
    assert words[0] == "-r" and words[1].startswith(".")


PROGRAMS: Mapping[str, Callable[[Words], None]] = {
    "runspec": runspec,
    ".venv/bin/runspec": runspec,
    ".venv/bin/python": python,
    "python3": script,
    "tools/setup": set_up,
    ".": activate,
    "git": git,
    "pip": pip,
    "pytest": any_file,
    "$EDITOR": any_file,
    "cd": change_folder,
    "export": export,
    "jq": jq,
    "aws": of_a_cloud,
    "az": of_a_cloud,
}


def commands(line: str) -> list[list[str]]:
    """Return the words of each command of a line.

    >>> commands("tools/setup && runspec list | jq -r .a")
    [['tools/setup'], ['runspec', 'list'], ['jq', '-r', '.a']]
    """
    words = shlex.split(line)
    found: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", "|"):
            found.append([])
        else:
            found[-1].append(word)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_its_language(page: str) -> None:
    text = (ROOT / page).read_text()
    marks = re.findall(r"^ *```", text, re.MULTILINE)

    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert len(marks) == 2 * len(list(blocks(page)))


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/architecture.md"])
def test_no_block_is_hidden_in_an_indent(page: str) -> None:
    """A paragraph that begins with four spaces is a block too, and would have no language."""
    outside = re.sub(
        r"^( *)```.*?^ *```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL
    )

    assert re.findall(r"^\n {4}\S.*", outside, re.MULTILINE) == []


def test_every_block_of_commands_is_run_or_says_why_it_is_not() -> None:
    names = [block.name for block in SHELL]

    assert len(names) == len(set(names))
    assert {*names} == RUN | CHECKED.keys()
    assert RUN & CHECKED.keys() == set()


@pytest.mark.parametrize("name", CHECKED)
def test_a_block_that_is_not_run_names_a_test_that_does_the_same(name: str) -> None:
    test = CHECKED[name].test

    assert test is None or is_defined(*test.split("::"))


@pytest.mark.process
@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.name[:50])
def test_a_block_of_commands_is_right_for_a_shell(block: Block) -> None:
    done = subprocess.run(["sh", "-n"], input=block.text, text=True, capture_output=True)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.name[:50])
def test_each_command_of_a_block_is_one_that_exists(block: Block) -> None:
    for line in block.lines():
        for program, *words in commands(line):
            PROGRAMS[program](words)


@pytest.mark.parametrize(
    "line", ["runspec aply job.yaml", "runspec apply --detached job.yaml", "runspec destroy --al"]
)
def test_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    with pytest.raises(UsageError):
        runspec(line.split()[1:])


@pytest.mark.parametrize(("page", "line"), INLINE, ids=lambda text: text[:50])
def test_each_command_in_a_sentence_is_one_that_exists(page: str, line: str) -> None:
    words = shlex.split(line.replace("...", ""))[1:]
    words = ["1" if word == "N" else word for word in words]
    if words[0].isupper():
        return
    # A command with files of the checkout is one to copy, so it leaves nothing out.
    whole = any("/" in word and (ROOT / word).is_file() for word in words)
    with contextlib.nullcontext() if whole else contextlib.suppress(Incomplete):
        runspec(words)


@pytest.mark.parametrize("line", SIMULATIONS, ids=lambda text: text[:50])
def test_a_simulation_in_a_sentence_or_a_table_can_be_pasted(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)

    assert run(shlex.split(line)[1:]) == 0
    assert "elastic" in capsys.readouterr().out


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.language == "yaml"], ids=lambda b: f"{b.page} {b.text[:20]}"
)
def test_a_block_of_yaml_can_be_read_and_a_spec_is_valid(block: Block, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(block.text))

    assert all(documents)
    if "apiVersion" in documents[0] and "tiny" not in block.text:
        (tmp_path / "all.yaml").write_text(block.text)
        problems = [one for text in check_file(tmp_path / "all.yaml") for one in text.diagnostics]
        assert [str(one) for one in problems if one.severity == "error"] == []


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.language == "json"], ids=lambda b: f"{b.page} {b.text[:20]}"
)
def test_a_block_of_json_can_be_read(block: Block) -> None:
    assert json.loads(block.text)
