"""The picture in the README is of a real run: `tools/draw-run` makes it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from terminal_picture import Screen

from runspec_jobs.cli.commands import command_line
from tests.support.root import ROOT

PICTURE = ROOT / "docs" / "run.svg"
SVG = "{http://www.w3.org/2000/svg}"
WIDTH = 12.2  # of a character
RUN = r"fit-[0-9a-z]{6}"


def lines(picture: Path) -> list[str]:
    """Return the lines of text of a picture, from the top; spaces between two colours are no text in it."""
    rows: dict[float, str] = {}
    for text in ElementTree.parse(picture).iter(f"{SVG}text"):
        if "clip-path" in text.attrib:
            y, column = float(text.attrib["y"]), round(float(text.attrib["x"]) / WIDTH)
            rows[y] = rows.get(y, "").ljust(column) + "".join(text.itertext())
    return [rows[y].replace("\xa0", " ").rstrip() for y in sorted(rows)]


def typed(shown: Sequence[str]) -> list[str]:
    return [line[2:] for line in shown if line.startswith("$ ")]


@pytest.mark.process
@pytest.mark.slow
def test_the_picture_can_be_made_again(tmp_path: Path) -> None:
    made = tmp_path / "run.svg"

    subprocess.run([sys.executable, ROOT / "tools" / "draw-run", made], check=True)

    shown, kept = lines(made), lines(PICTURE)
    end = kept.index(next(line for line in kept if line.startswith("$ runspec apply")))
    assert shown[:end] == kept[:end]
    assert typed(shown) == typed(kept)
    tasks = [sorted(line for line in all_ if line.startswith("[task ")) for all_ in (shown, kept)]
    assert tasks[0] == tasks[1] and len(tasks[0]) == 9


def test_the_readme_begins_with_the_picture_of_a_run_that_succeeded() -> None:
    shown = lines(PICTURE)

    assert "](docs/run.svg)" in (ROOT / "README.md").read_text()[:700]
    assert re.search(rf"{RUN}.*succeeded", "\n".join(shown))
    assert len(typed(shown)) == 4


def test_each_command_in_the_picture_exists() -> None:
    commands = [line for line in typed(lines(PICTURE)) if line.startswith("runspec ")]

    for name, *words in (shlex.split(line)[1:] for line in commands):
        command_line.read(name, words)
    assert len(commands) == 3


def test_the_picture_names_no_outside_address_and_no_folder_of_the_machine() -> None:
    text = PICTURE.read_text()

    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "/tmp" not in text and "font-face" not in text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("10 %\r100 %\r\n", ["100 %"]),
        ("a\r\nb\x1b[1A\x1b[2K\rc\r\n", ["c", "b"]),
        ("long text\r\x1b[Kshort", ["short"]),
        ("a\r\nb\r\nc\x1b[2A\r\x1b[Jd", ["d"]),
        ("\x1b]0;title\x07x\x1b[?25l", ["x"]),
        ("ab\x1b[2Dc", ["cb"]),
        ("twelve chars\r\nand then fourteen", ["twelve chars", "and then fou", "rteen"]),
    ],
)
def test_the_screen_is_that_of_a_terminal(written: str, shown: list[str]) -> None:
    screen = Screen(columns=12)

    screen.write(written)

    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in screen.text()] == shown
