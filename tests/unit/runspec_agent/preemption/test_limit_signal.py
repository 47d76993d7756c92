"""The signal before a time limit reaches each process of the program that handles it, and no other one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_agent.base import program_hooks
from runspec_agent.base.program_hooks import SIGNALS
from runspec_agent.preemption import limit_signal
from tests.support.agent.shells import SHELLS
from tests.support.wait import until

pytestmark = pytest.mark.process
# Says when it is ready, and writes a line for each signal.
PROGRAM = """
import os, signal, sys, threading, time
path = sys.argv[1]
def write(text):
    with open(path, "a") as file:
        file.write(text)
waits = threading.Thread(target=lambda: signal.sigwait([signal.SIGUSR1]) and write("got "), daemon=True)
if sys.argv[2] == "handles":
    signal.signal(signal.SIGUSR1, lambda *_: write("got "))
elif sys.argv[2] == "blocks":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    waits.start()
if len(sys.argv) > 3:
    with open("/proc/self/comm", "w") as file:
        file.write(sys.argv[3])
write("up ")
time.sleep(60)
"""
KINDS = ("handles", "blocks", "leaves", "handles mpirun", "handles runspec")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Give a shell that waits for a process of each kind, in the foreground for the last one."""
    lines = [f"{sys.executable} -c '{PROGRAM}' {i} {kind} &" for i, kind in enumerate(KINDS)]
    script = "\n".join([*lines, "wait"])
    child = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, start_new_session=True)
    yield child
    os.killpg(child.pid, 9)
    child.wait()


def heard(folder: Path) -> list[str]:
    return [(folder / str(i)).read_text() for i, _ in enumerate(KINDS)]


def are_up(folder: Path) -> bool:
    return all(
        (folder / str(i)).exists() and (folder / str(i)).read_text() for i, _ in enumerate(KINDS)
    )


def by_python(root: int) -> str:
    return limit_signal.send("USR1", root)


def by(name: str) -> Callable[[int], str]:
    def send(root: int) -> str:
        program = shutil.which(SHELLS[name][0])
        assert program is not None, f"{name} is needed: install it"
        line = [program, *SHELLS[name][1:], *program_hooks.signal_words("USR1", root)[1:]]
        return subprocess.run(line, capture_output=True, text=True, check=True).stderr

    return send


@pytest.mark.parametrize("send", [by_python, *map(by, SHELLS)], ids=["python", *SHELLS])
def test_processes_that_handle_it_get_it_once_and_others_go_on(
    send: Callable[[int], str], shell: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    until(lambda: are_up(tmp_path))

    said = send(shell.pid)

    assert "USR1 was sent to processes of the program: 2" in said
    until(lambda: heard(tmp_path)[:2] == ["up got "] * 2)
    assert heard(tmp_path)[2:] == ["up "] * 3
    assert shell.poll() is None
    assert "no process" in send(10**8)


def test_ranks_that_another_process_has_started_are_known_by_their_variables(
    tmp_path: Path,
) -> None:
    env = {"RUNSPEC_RUN": "r", "RUNSPEC_TASK": "0", "RUNSPEC_RANK": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), "handles"],
            cwd=tmp_path,
            env={**env, "RUNSPEC_RANK": str(rank)},
        )
        for rank in (1, 10)
    ]
    try:
        until(lambda: all((tmp_path / name).exists() for name in ("1", "10")))

        said = limit_signal.send("USR1", 10**8, env)

        assert said == "USR1 was sent to processes of the program: 1"
        until(lambda: (tmp_path / "1").read_text() == "up got ")
        assert (tmp_path / "10").read_text() == "up "
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def test_the_numbers_are_those_of_this_machine() -> None:
    import signal

    own = {s.name[3:]: int(s) for s in signal.Signals if s < 32 and s.name[3:] in SIGNALS}
    assert own == SIGNALS
