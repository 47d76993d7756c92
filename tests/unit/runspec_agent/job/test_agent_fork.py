"""The agent as a fork of the batch process: it must be what the command line would have started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_agent.job import agent_fork
from runspec_jobs.provider.payload import pack_agent

pytestmark = pytest.mark.process

# Forks with a main that says what it finds, and ends as the batch process would see it.
FORKS = """
import os, signal, sys
from runspec_agent.base import process
from runspec_agent.job import agent_fork
def main():
    {body}
agent_fork.main = main
with process.Signals() as signals:
    parent = os.getsid(0)
    child = agent_fork.start(signals)
    code = process.run(child, signals, 5.0)
print("code", code)
"""


def forks(folder: Path, body: str) -> str:
    """Give what a fork prints that does *body*, and with which code it is seen to end."""
    (folder / "inside.pyz").write_bytes(pack_agent())
    script = f"import sys; sys.path.insert(0, {str(folder / 'inside.pyz')!r})"
    script += FORKS.format(body=body)
    argv = [sys.executable, "-IS", "-c", script, "batch", "--", "words"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = str(tmp_path / "inside.pyz")
    Path(found).touch()
    monkeypatch.setattr(sys, "argv", [found, "batch"])
    return found


def test_the_agent_of_this_zipapp_is_a_fork(app: str) -> None:
    """By whatever name Python and the zipapp are called."""
    relative = os.path.relpath(app)

    assert agent_fork.is_ours([sys.executable, "-IS", app, "job"])
    assert agent_fork.is_ours([sys.executable, "-IS", relative, "job"])


@pytest.mark.parametrize(
    "words",
    [
        ["podman", "run", "image", sys.executable, "-IS", "inside.pyz", "job"],
        ["sh", "-IS", "inside.pyz", "job"],
        [sys.executable, "-IS", "other.pyz", "job"],
        [sys.executable, "-IS", "inside.pyz", "enter"],
        [sys.executable, "-IS", "inside.pyz", "job", "--", "true"],
        [sys.executable, "inside.pyz"],
        ["no-such-python", "-IS", "inside.pyz", "job"],
    ],
)
def test_other_commands_are_started_not_forked(
    app: str, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """In a container, by another Python, of another zipapp, or not an agent at all."""
    monkeypatch.chdir(Path(app).parent)

    assert not agent_fork.is_ours(words)


def test_a_fork_ends_with_its_own_code(tmp_path: Path) -> None:
    """What it has printed is there."""
    said = forks(tmp_path, "print('hi'); return 7")

    assert said == "hi\ncode 7\n"


def test_a_fork_is_told_that_it_is_the_agent(tmp_path: Path) -> None:
    """And has a session of its own, so that a signal to a group reaches it once."""
    said = forks(tmp_path, "print(sys.argv[1:], os.getsid(0) == os.getpid() != parent); return 0")

    assert said == "['job'] True\ncode 0\n"


def test_a_fork_hears_signals_itself(tmp_path: Path) -> None:
    """None is held back, and none goes to the batch process, which would take it for its own."""
    said = forks(tmp_path, "os.kill(os.getpid(), signal.SIGUSR1); return 0")

    assert said == "code 138\n"


def test_a_fork_that_breaks_says_so(tmp_path: Path) -> None:
    """It ends as a program of Python does."""
    said = forks(tmp_path, "raise ValueError")

    assert said == "code 1\n"
