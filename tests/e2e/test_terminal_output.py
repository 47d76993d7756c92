"""What a job prints, at a terminal and in a pipe, and how soon."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.support.terminal import RUNSPEC, Terminal

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
COLOURS = r"""run: printf '\033[31mred\n\033]0;title\007\033[2Jlast\033[0m\n'""" + "\n"
LOG = b"\x1b[31mred\n\x1b]0;title\x07\x1b[2Jlast\x1b[0m\n"

pytestmark = pytest.mark.slow


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return tmp_path / "job.yaml"


def test_colours_pass_at_a_terminal_and_nothing_else_does(job: Path) -> None:
    job.write_text(HEAD + COLOURS)

    terminal = Terminal("apply", str(job))

    assert terminal.code() == 0
    assert "\x1b[31mred\x1b[0m\r\n\x1b[31mlast\x1b[0m\x1b[0m\r\n" in terminal.shown
    assert "title" not in terminal.shown
    assert "\x1b[2J" not in terminal.shown


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_without_colours_at_a_terminal_if_that_is_wanted(
    job: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    job.write_text(HEAD + COLOURS)
    assert run(["apply", "--json", str(job)]) == 0
    monkeypatch.setenv(name, value)

    terminal = Terminal("logs", "job")

    assert terminal.code() == 0
    assert terminal.shown == "red\r\nlast\r\n"


def test_a_pipe_gets_no_colours_and_a_saved_log_all(job: Path) -> None:
    job.write_text(HEAD + COLOURS)
    assert run(["apply", "--json", str(job)]) == 0

    piped = subprocess.run([*RUNSPEC, "logs", "job"], capture_output=True, check=True)
    assert run(["logs", "job", "--save", str(job.with_name("log"))]) == 0

    assert piped.stdout == b"red\nlast\n"
    assert job.with_name("log").read_bytes() == LOG
