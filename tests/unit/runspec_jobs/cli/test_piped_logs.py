"""A line of 50 MB goes through a pipe as it was printed, to whoever reads it, and is never held whole."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.slow

BYTES = 50_000_000
HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\n"
HELD = (
    30 << 20
)  # what a line may take beside all that is imported: parts of it, decoded and encoded


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with a run that printed a long line, and one that printed a short one."""
    home = tmp_path_factory.mktemp("piped")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNSPEC_HOME", str(home))
        for name, size in (("long", BYTES), ("short", 10)):
            script = f"head -c {size} /dev/zero | tr '\\\\0' x; printf '\\\\nno end'"
            path = home / f"{name}.yaml"
            path.write_text(HEAD.replace("job", name) + f'run: "{script}"\n')
            assert run(["apply", "--json", str(path)]) == 0
    return home


@pytest.fixture(autouse=True)
def of_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNSPEC_HOME", str(home))
    monkeypatch.chdir(home)


def piped(name: str, reader: Callable[[int], None]) -> tuple[int, int, bytes]:
    """Pipe the log of a run to *reader*; return the exit code, the most bytes of memory held, and what was said."""
    line = [sys.executable, "-m", "runspec_jobs", "logs", name]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as logs:
        assert logs.stdout and logs.stderr
        reader(logs.stdout.fileno())
        logs.stdout.close()
        said = logs.stderr.read()
        _, status, used = os.wait4(logs.pid, 0)
        logs.returncode = os.waitstatus_to_exitcode(status)
    return logs.returncode, used.ru_maxrss * 1024, said


class Digest:
    """Reads all, with a pause at first if it is slow."""

    def __init__(self, pause_s: float = 0) -> None:
        self.pause_s, self.found = pause_s, hashlib.sha256()

    def __call__(self, fd: int) -> None:
        time.sleep(self.pause_s)
        while data := os.read(fd, 1 << 16):
            self.found.update(data)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("pause_s", [0, 2], ids=["a reader", "a slow reader"])
def test_a_long_line_arrives_as_it_was_printed(home: Path, pause_s: float) -> None:
    (stored,) = home.glob("local/runs/long-*/logs/0-0.log")
    assert stored.stat().st_size == BYTES + len("\nno end")
    reader, short = Digest(pause_s), Digest()

    code, held, said = piped("long", reader)
    _, least, _ = piped("short", short)

    assert (code, said) == (0, b"")
    assert reader.found.hexdigest() == hashlib.sha256(stored.read_bytes()).hexdigest()
    assert held - least < HELD


@pytest.mark.timeout(LIMIT_S)
def test_a_reader_that_goes_away_ends_it_without_a_word() -> None:
    """As a shell says of a program that a closed pipe has ended: 128 + SIGPIPE."""
    code, _, said = piped("long", lambda fd: assert_x(os.read(fd, 1000)))

    assert (code, said) == (141, b"")


def assert_x(data: bytes) -> None:
    assert data.strip(b"x") == b""
