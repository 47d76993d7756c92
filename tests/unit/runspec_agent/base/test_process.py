"""The first process of a job: signals in, the exit code out, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs.provider.payload import pack_agent
from tests.support.agent.process_nodes import Nodes

pytestmark = pytest.mark.process


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """One node without inside.sh: `launch -- WORD...` of the zipapp itself."""
    one = Nodes(tmp_path, 1, {"RUNSPEC_LAUNCH": "none"}, os.environ["PATH"])
    yield one
    one.close()


def start(nodes: Nodes, *argv: str, **extra: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-IS", str(nodes.folder / "inside.pyz"), "launch", "--", *argv]
    child = subprocess.Popen(
        line,
        env={**nodes.words, **extra},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    nodes.processes[0] = child  # type: ignore[assignment]  # text or bytes is the same to close()
    return child


def ready(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


LOOP = "while :; do sleep 0.05; done"


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_exit_code_is_the_programs_own(nodes: Nodes, code: int) -> None:
    """Whatever it is."""
    child = start(nodes, "sh", "-c", f"exit {code}")

    child.communicate()

    assert child.returncode == code


SAVES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.7), os.write(1, b"saved\\n"), sys.exit()))
print("ready", flush=True)
time.sleep(60)
"""


def test_a_program_below_a_shell_gets_sigterm_and_saves(nodes: Nodes) -> None:
    """The shell itself ends at once, because it waits for the program in the foreground."""
    child = start(nodes, "sh", "-c", '"$0" -c "$1"; echo after', sys.executable, SAVES)
    assert ready(child) == "ready\n"

    child.terminate()

    assert child.communicate() == ("saved\n", "")
    assert child.returncode == 143


def test_a_program_below_a_shell_is_killed_after_the_grace_period(nodes: Nodes) -> None:
    stubborn = "trap '' TERM; echo ready; " + LOOP
    child = start(nodes, "sh", "-c", f'sh -c "{stubborn}"; echo after', RUNSPEC_GRACE_S="1")
    assert ready(child) == "ready\n"
    began = time.monotonic()

    child.terminate()

    assert child.communicate() == ("", "")
    assert child.returncode == 143
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_killed_by_a_signal_is_128_and_it(nodes: Nodes, number: int) -> None:
    """As a shell would say; 143 also when somebody else ended it."""
    child = start(nodes, "sh", "-c", f"kill -{int(number)} $$")

    child.communicate()

    assert child.returncode == 128 + number


@pytest.mark.parametrize("code", [0, 1])
def test_a_stop_that_was_asked_for_is_143(nodes: Nodes, code: int) -> None:
    """Whatever the program makes of it, for torchrun makes 1 of it."""
    child = start(nodes, "sh", "-c", f'trap "echo saved; exit {code}" TERM; echo; {LOOP}')
    ready(child)

    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate()

    assert (out, child.returncode) == ("saved\n", 143)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_other_signals_are_passed_on_as_they_are(nodes: Nodes, number: int) -> None:
    """And the code stays the program's."""
    child = start(nodes, "sh", "-c", f'trap "exit 9" {int(number)}; echo; {LOOP}')
    ready(child)

    child.send_signal(number)
    child.communicate()

    assert child.returncode == 9


def test_a_signal_to_the_group_reaches_the_program_once(nodes: Nodes) -> None:
    """Or a second SIGTERM would break off what it does at the first."""
    script = "trap 'n=x$n' USR1; trap 'echo $n; exit' TERM; echo; " + LOOP
    child = start(nodes, "sh", "-c", script)
    ready(child)

    os.kill(child.pid, signal.SIGUSR1)
    os.kill(child.pid, signal.SIGTERM)
    out, _ = child.communicate()

    assert out in ("x\n", "\n")  # two signals at once come in any order
    assert os.getpgid(0) != child.pid


def test_a_program_that_ignores_sigterm_is_killed_with_all_it_started(nodes: Nodes) -> None:
    """With everything it has started, in whatever session."""
    script = f'setsid sh -c "{LOOP}" & trap "" TERM; echo; {LOOP}'
    child = start(nodes, "sh", "-c", script, RUNSPEC_GRACE_S="0.2")
    ready(child)

    child.send_signal(signal.SIGTERM)
    child.wait(60)

    assert child.returncode == 143
    assert nodes.left() == []


def test_nothing_a_program_started_outlives_it(nodes: Nodes) -> None:
    """Also what has left its session."""
    child = start(nodes, "sh", "-c", f'setsid sh -c "{LOOP}" >/dev/null 2>&1 & exit 3')

    child.communicate()

    assert child.returncode == 3
    assert nodes.left() == []


def test_a_program_dies_with_the_one_that_watches_over_it(nodes: Nodes) -> None:
    """A program that nobody stops any more would run on for ever."""
    child = start(nodes, "sh", "-c", "echo; exec sleep 600")
    ready(child)

    child.kill()
    child.wait()

    nodes.until(lambda: nodes.left() == [])


@pytest.mark.parametrize("name, code", [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_be_started_ends_as_in_a_shell(
    nodes: Nodes, name: str, code: int
) -> None:
    """127 not found, 126 not executable; one line."""
    child = start(nodes, name)

    _, err = child.communicate()

    assert child.returncode == code
    assert err.startswith(f"runspec: '{name}': ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("argv", [[], ["fly"], ["launch"], ["rsh", "x"], ["sync", "a", "b"]])
def test_a_wrong_command_line_is_2(tmp_path: Path, argv: list[str]) -> None:
    """And one line."""
    (tmp_path / "i.pyz").write_bytes(pack_agent())

    done = subprocess.run(
        [sys.executable, "-IS", str(tmp_path / "i.pyz"), *argv], capture_output=True, text=True
    )

    assert done.returncode == 2
    assert done.stderr.startswith("runspec: ") and done.stderr.count("\n") == 1
