"""What a job prints, at a terminal and in a pipe, and how soon."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runspec_jobs import api
from runspec_jobs.cli.app import run
from tests.support.terminal import RUNSPEC, Terminal
from tests.support.wait import until

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


BAR = """
import sys, time
from tqdm import tqdm

print("begun", flush=True)
for _ in tqdm(range(40), mininterval=0, ncols=60):
    time.sleep(0.05)
print("ended")
"""


def bar(job: Path, program: str = BAR, more: str = "") -> None:
    """Write a spec that runs *program*, whose progress bar takes two seconds."""
    script = job.with_name("bar.py")
    script.write_text(program)
    job.write_text(f"{HEAD}command: [{json.dumps(sys.executable)}, {script}]\n{more}")


def test_a_progress_bar_of_tqdm_moves_at_a_terminal_and_ends_as_one_line(job: Path) -> None:
    bar(job)

    terminal = Terminal("apply", str(job))
    assert terminal.code() == 0

    lines = screen(terminal.shown)
    (last,) = [line for line in lines if "/40" in line]
    assert last.startswith("100%|")
    assert len(set(re.findall(r" (\d+)/40", terminal.shown))) > 10
    begun, ended = lines.index("begun"), lines.index("ended")
    assert begun < lines.index(last) < ended


def test_a_progress_bar_of_tqdm_in_a_pipe_is_its_first_and_its_last_text(job: Path) -> None:
    bar(job)

    piped = subprocess.run([*RUNSPEC, "apply", str(job)], capture_output=True, check=True)
    again = subprocess.run([*RUNSPEC, "logs", "job"], capture_output=True, check=True)

    for out in (piped.stdout, again.stdout):
        shown = [line for line in out.decode().splitlines() if "/40" in line]
        assert len(shown) == 2
        assert shown[-1].startswith("100%|")
        assert b"\r" not in out


def test_bars_of_several_nodes_have_a_line_each(job: Path) -> None:
    bar(job, more="cluster: {nodes: 2}\n")

    terminal = Terminal("apply", str(job))
    assert terminal.code() == 0

    assert "\x1b[1A\x1b[J" in terminal.shown
    assert "\x1b[36m[node 0]\x1b[0m 100%" in terminal.shown
    shown = [line for line in screen(terminal.shown) if "/40" in line]
    assert sorted(line[:13] for line in shown) == ["[node 0] 100%", "[node 1] 100%"]


def test_a_line_that_has_not_ended_is_at_the_terminal_and_stays_after_ctrl_c(job: Path) -> None:
    job.write_text(HEAD + "run: |\n  printf 'asks: '\n  exec sleep 600\n")

    terminal = Terminal("apply", str(job))
    terminal.until("asks: ")
    terminal.type("\x03")
    terminal.until("detached")
    assert terminal.code() == 130

    assert "asks:" in screen(terminal.shown)
    assert run(["destroy", "job"]) == 0


LINES = """
import time

for pause_s in (0, 0.3, 0.3, 0.3, 2, 8):
    time.sleep(pause_s)
    print(time.time())
time.sleep(3)
"""


@pytest.mark.parametrize("follower", ["apply", "logs"])
def test_a_line_is_on_the_screen_within_a_second(job: Path, follower: str) -> None:
    """Also after a silence, and although the program does not flush its output."""
    bar(job, LINES)
    if follower == "logs":
        assert run(["apply", "-d", "--json", str(job)]) == 0

    words = ["apply", str(job)] if follower == "apply" else ["logs", "-f", "job"]
    late = []
    with subprocess.Popen([*RUNSPEC, *words], stdout=subprocess.PIPE) as logs:
        assert logs.stdout
        late = [time.time() - float(line) for line in iter(logs.stdout.readline, b"")]

    assert logs.returncode == 0
    assert len(late) == 6
    # `logs` begins when the first lines have been printed.
    assert max(late if follower == "apply" else late[-2:]) < 1


def test_a_spec_can_have_python_collect_its_output(job: Path) -> None:
    bar(job, LINES.replace("2, 8", ""), 'env: {PYTHONUNBUFFERED: ""}\n')

    with subprocess.Popen([*RUNSPEC, "apply", str(job)], stdout=subprocess.PIPE) as logs:
        assert logs.stdout
        late = [time.time() - float(line) for line in iter(logs.stdout.readline, b"")]

    assert len(late) == 4
    assert min(late) > 2


def test_lines_are_chosen_while_a_log_is_followed_and_afterwards(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job.write_text(HEAD + "run: |\n  seq 1 100\n  sleep 3\n  seq 101 110\n")
    assert run(["apply", "-d", "--json", str(job)]) == 0
    until(lambda: run(["logs", "job"]) == 0 and "100\n" in capfd.readouterr().out)

    assert run(["logs", "-f", "job", "--tail", "2", "--grep", "5"]) == 0
    assert capfd.readouterr().out.split() == ["85", "95", "105"]
    assert run(["logs", "job", "--tail", "2"]) == 0
    assert capfd.readouterr().out == "109\n110\n"
    assert run(["logs", "job", "--tail", "1", "--grep", "^9", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["line"] == "99"
    assert [line.text for line in api.get("job").logs(tail=1, grep="^8")] == ["89"]
    followed = api.get("job").logs(tail=1, grep="^8", follow=True)
    assert [line.text for line in followed] == ["89"]


@pytest.mark.parametrize("option", [["--tail", "2"], ["--grep", "x"]])
def test_a_saved_log_is_whole(
    job: Path, capfd: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert run(["logs", "job", "--save", "log", *option]) == 2
    assert f"{option[0]} cannot be used with --save" in capfd.readouterr().err


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows after *text*, which may erase and overwrite its last lines."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+|\x1b", text):
        if part == "\n":
            lines.append("")
            at = 0
        elif part == "\r":
            at = 0
        elif part == "\x1b[J":
            lines[-1] = lines[-1][:at]
        elif part.endswith("A"):
            del lines[len(lines) - int(part[2:-1]) :]
        elif not part.startswith("\x1b"):
            lines[-1] = lines[-1][:at].ljust(at) + part + lines[-1][at + len(part) :]
            at += len(part)
    return [line.rstrip() for line in lines]
