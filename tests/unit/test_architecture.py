"""docs/architecture.md: the tests and the rooms that it names are those of the project."""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any
from xml.etree import ElementTree

import pytest

from runspec_jobs.cli.app import run
from tests.support.named_tests import is_defined, named_tests
from tests.support.root import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
DOT = (ROOT / "docs/architecture.dot").read_text()
CORE = ROOT / "runner/runspec_jobs"
LOCAL = ROOT / "providers/runspec_local"
SVG = "{http://www.w3.org/2000/svg}"
TREE = PAGE.partition("## Tree")[2].partition("\n## ")[0]


@pytest.mark.parametrize("path,name", named_tests(PAGE))
def test_each_test_that_the_page_names_is_there(path: str, name: str) -> None:
    assert is_defined(path, name)


@pytest.mark.parametrize(
    "folder", ["runner/runspec_jobs", "runner/runspec_agent", "providers", "emulators"]
)
def test_the_tree_names_every_room(folder: str) -> None:
    rooms = {file.parent.name for file in (ROOT / folder).glob("*/__init__.py")}

    part = re.split(r"^    (?=\S)", TREE.partition(f"    {folder}/")[2], flags=re.MULTILINE)[0]

    assert set(re.findall(r"^ {6}(\w+)/ +\S", part, re.MULTILINE)) == rooms


def walk(part: str) -> list[tuple[str, str]]:
    """Return the files and functions that *part* of the page names, in its order."""
    found: list[tuple[str, str]] = re.findall(r"`((?:runner|providers)/[\w/]+\.py)::(\w+)`", part)
    return found


WALK = PAGE.partition("## The way of a spec")[2].partition("\n## ")[0]
# What the page says of AWS comes after a mark in each row, and processes of their own are not in this one.
HERE = re.sub(r"in a process of its own:.*|AWS:.*", "", WALK)


@pytest.mark.parametrize("path,name", walk(WALK))
def test_each_function_on_the_way_is_there(path: str, name: str) -> None:
    nodes = ast.walk(ast.parse((ROOT / path).read_text()))

    assert name in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


class Calls:
    """Record the functions of this project in the order in which they are first called."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], None] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            path = str(Path(code.co_filename).relative_to(ROOT))
            self.seen.setdefault((path, code.co_name))


@pytest.fixture
def calls() -> Iterator[Calls]:
    found = Calls()
    sys.setprofile(found)
    threading.setprofile(found)
    yield found
    sys.setprofile(None)
    threading.setprofile(None)


@pytest.mark.process
def test_an_apply_on_this_machine_goes_the_way_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: Calls
) -> None:
    monkeypatch.chdir(tmp_path)
    head = "apiVersion: runspec/v1\nname: walk\nprovider: local\n"
    (tmp_path / "job.yaml").write_text(head + "command: [echo, hello]\n")

    code = run(["apply", "job.yaml"])
    sys.setprofile(None)

    named = walk(HERE)
    assert (code, len(named)) == (0, 20)
    assert [call for call in calls.seen if call in named] == named


def rooms_to(frame: FrameType | None) -> list[str]:
    """Return the rooms of the core on the stack, from the command line down, each once for frames in a row."""
    found: list[str] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(CORE) and path.parent != CORE:
            room = path.relative_to(CORE).parts[0]
            if not found or found[-1] != room:
                found.append(room)
        frame = frame.f_back
    return found[::-1]


class Entered:
    """Record the ways on which functions of a provider are called."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.ways = names, dict[str, set[tuple[str, ...]]]()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in self.names and str(LOCAL) in code.co_filename:
            self.ways.setdefault(code.co_name, set()).add(tuple(rooms_to(frame)))


@pytest.mark.process
def test_no_room_is_entered_twice_on_the_way_to_a_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    head = "apiVersion: runspec/v1\nname: rooms\nprovider: local\n"
    (tmp_path / "job.yaml").write_text(head + "command: [echo, hello]\n")
    entered = Entered(["check", "plan", "connect", "call", "state", "cancel"])

    sys.setprofile(entered)
    for words in (
        ["plan", "job.yaml"],
        ["apply", "job.yaml"],
        ["status", "rooms"],
        ["destroy", "rooms"],
    ):
        assert run(words) == 0
    sys.setprofile(None)

    assert entered.ways.keys() >= {"check", "plan", "connect", "call", "state"}
    for ways in entered.ways.values():
        for way in ways:
            assert way[:2] == ("cli", "api")
            assert len(set(way)) == len(way), way


def test_the_picture_shows_what_its_source_says() -> None:
    """`tools/draw` makes one of the other; the labels of the boxes are compared."""
    texts = re.findall(r'^ +\w+ \[label="([^"]+)"', DOT, re.MULTILINE)
    wanted = {line for text in texts for line in text.split(r"\n")}
    tree = ElementTree.parse(ROOT / "docs/architecture.svg")

    boxes = tree.iterfind(f".//{SVG}g[@class='node']/{SVG}text")

    assert {box.text for box in boxes} == wanted
