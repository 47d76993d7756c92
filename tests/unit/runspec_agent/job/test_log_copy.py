"""What a container prints is in its own output and in the store; signals and exit codes pass through."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.job.log_copy import MARK_BYTES
from runspec_jobs.provider.payload import pack_agent
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.process

RECORD: dict[str, Any] = {
    "run": "r",
    "shape": "array",
    "nodes": 1,
    "slots": 1,
    "launch": "none",
    "attempts": 1,
    "sweep": [],
    "mounts": [],
    "outputs": [],
    "requirements": [],
    "build_constraints": [],
    "ends": True,
}
MARK = re.compile(rb"runspec: the log continues at byte (\d+)\n")


class Job:
    """A job whose agent is the first process of a container, with a folder as its store."""

    def __init__(self, folder: Path, program: str, log: str = "log", words: str = "job") -> None:
        (folder / "inside.pyz").write_bytes(pack_agent())
        record = {**RECORD, "argv": [sys.executable, "-c", program]}
        (folder / "store" / "runs" / "r").mkdir(parents=True)
        (folder / "store" / "runs" / "r" / "record.json").write_text(json.dumps(record))
        env = {
            "PATH": os.environ["PATH"],
            "RUNSPEC_RUN": "r",
            "RUNSPEC_JOB": "r",
            "RUNSPEC_INDEX": "3",
            "RUNSPEC_ATTEMPT": "2",
            "RUNSPEC_STORE": f"file://{folder}/store",
            "RUNSPEC_SCRATCH": str(folder),
            "RUNSPEC_LOG": str(folder / log),
        }
        self.copy = folder / "store" / "runs" / "r" / "logs" / "3" / "0" / "2.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-IS", str(folder / "inside.pyz"), "copy-log", words],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )

    def output(self) -> tuple[int, bytes]:
        """Return the exit code and the output of the container."""
        out, _ = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out


def without_marks(out: bytes) -> bytes:
    """Return the log in the output of a container, in which every mark must tell the truth."""
    log = bytearray()
    for number, part in enumerate(MARK.split(out)):
        if number % 2:
            assert int(part) == len(log)
        else:
            log += part
    return bytes(log)


def test_the_store_has_what_the_container_printed(tmp_path: Path) -> None:
    """On both streams, with the agent's own lines; the last line has no end."""
    program = "import os; os.write(1, b'one\\n\\xff\\r\\n'); os.write(2, b'two'); exit(3)"

    code, out = Job(tmp_path, program).output()

    assert (code, without_marks(out)) == (3, b"one\n\xff\r\ntwo")
    assert out.startswith(b"runspec: the log continues at byte 0\n")
    assert (tmp_path / "store/runs/r/logs/3/0/2.txt").read_bytes() == without_marks(out)
    assert (tmp_path / "store/runs/r/logs/3/0/2.times").read_bytes().startswith(b"10 ")


def test_a_long_log_has_marks_and_nothing_is_lost(tmp_path: Path) -> None:
    """A service returns the newest part of it, of which a reader must know where it begins."""
    lines = 300_000
    program = f"import sys\nfor n in range({lines}): sys.stdout.write('line %d\\n' % n)"

    job = Job(tmp_path, program)
    code, out = job.output()

    log = without_marks(out)
    assert (code, log) == (0, b"".join(b"line %d\n" % n for n in range(lines)))
    assert job.copy.read_bytes() == log
    marks = [int(mark) for mark in MARK.findall(out)]
    assert len(marks) == 1 + len(log) // MARK_BYTES
    assert all(MARK_BYTES <= b - a < 1.2 * MARK_BYTES for a, b in pairwise(marks))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_the_program_gets_the_signals_of_the_container(tmp_path: Path, number: int) -> None:
    program = (
        "import signal, sys, time\n"
        f"signal.signal({number:d}, lambda *_: (print('got {number:d}'), sys.exit(5)))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    job = Job(tmp_path, program)
    assert job.process.stdout is not None
    first = [job.process.stdout.readline() for _ in range(2)]
    job.process.send_signal(number)

    code, out = job.output()

    assert first[1] == b"ready\n"
    assert b"got %d\n" % number in out
    assert code == (143 if number == signal.SIGTERM else 5)
    assert job.copy.read_bytes() == without_marks(b"".join(first) + out)


def test_the_log_of_a_killed_agent_is_saved(tmp_path: Path) -> None:
    """By its parent, with the line that says so; the agent is the parent of the program."""
    program = "import os, signal; print('x', flush=True); os.kill(os.getppid(), signal.SIGKILL)"

    job = Job(tmp_path, program + "; import time; time.sleep(60)")
    code, out = job.output()

    assert code == 137
    assert b"x\n" in without_marks(out)
    assert b"killed by signal 9\n" in without_marks(out)
    assert job.copy.read_bytes() == without_marks(out)


def test_a_reader_that_is_slow_loses_nothing(tmp_path: Path) -> None:
    """The program waits, and the agent still gets signals."""
    program = "import sys\nwhile True: sys.stdout.write('y' * 100 + '\\n')"
    job = Job(tmp_path, program)
    assert job.process.stdout is not None
    begin = b"".join(job.process.stdout.readline() for _ in range(2))
    job.process.send_signal(signal.SIGTERM)

    code, out = job.output()

    assert code == 143
    assert job.copy.read_bytes() == without_marks(begin + out)


def test_a_log_that_cannot_be_copied_ends_no_job(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")

    code, out = Job(tmp_path, "print('hello')", "log/below").output()

    assert code == 0
    assert b"the log cannot be copied to the store" in out
    assert b"hello\n" in out
    assert not (tmp_path / "store/runs/r/logs").exists()


def test_a_full_disk_ends_the_copy_alone(tmp_path: Path) -> None:
    """What it has is the beginning of the log."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "stdout.txt").symlink_to("/dev/full")

    code, out = Job(tmp_path, "print('hello')").output()

    assert code == 0
    assert b"hello\n" in without_marks(out)
    assert b"cannot be copied to the store any more: No space left on device\n" in out


SPAWNS = """
import os, sys, time
sys.path.insert(0, {zipapp!r})
from runspec_agent import __main__ as agent
from runspec_agent.job import log_copy
def main():
    if os.fork() == 0:
        time.sleep({seconds})
        print("late")
        os._exit(0)
    print("said", flush=True)
    return 4
agent.main = main
sys.exit(log_copy.main(["job"]))
"""


def test_a_process_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    """Not longer than a moment, although it has the pipe; the agent leaves none."""
    (tmp_path / "inside.pyz").write_bytes(pack_agent())
    script = SPAWNS.format(zipapp=str(tmp_path / "inside.pyz"), seconds=LIMIT_S)

    with subprocess.Popen(
        [sys.executable, "-IS", "-c", script], stdout=subprocess.PIPE, env={}
    ) as begun:
        assert begun.wait(LIMIT_S / 2) == 4
        assert begun.stdout is not None
        assert MARK.sub(b"", begun.stdout.read()) == b"said\n"
