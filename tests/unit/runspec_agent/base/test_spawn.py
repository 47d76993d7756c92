"""A program is started as by `subprocess.Popen`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_agent.base import spawn
from runspec_agent.base.process import Signals

pytestmark = pytest.mark.process
SHOW = """
import os, signal
print(sorted(os.environ), os.getcwd(), os.getsid(0) == os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print([signal.getsignal(n).name for n in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)])
print([(n, os.readlink(f"/proc/self/fd/{n}")) for n in sorted(map(int, os.listdir("/proc/self/fd")[:-1]))])
"""


@pytest.fixture
def inherited() -> Iterator[int]:
    """A descriptor that programs would inherit."""
    handle = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(handle, True)
    yield handle
    os.close(handle)


def test_it_finds_what_popen_gives(tmp_path: Path, inherited: int) -> None:
    env = {"PATH": "/nowhere:/usr/bin:/bin", "A": "1"}
    argv = [sys.executable, "-ISc", SHOW]

    with (tmp_path / "a").open("wb") as out, Signals():
        pid = spawn.spawn(argv, env, str(tmp_path), (spawn.NULL, out.fileno(), None), lambda: None)
        assert os.waitpid(pid, 0)[1] == 0
    with (tmp_path / "b").open("wb") as out:
        null = subprocess.DEVNULL
        subprocess.run(
            argv,
            env=env,
            cwd=tmp_path,
            stdin=null,
            stdout=out,
            start_new_session=True,
            check=True,
        )

    ours, theirs = (tmp_path / "a").read_text(), (tmp_path / "b").read_text()
    assert ours.replace(f"{tmp_path}/a'", f"{tmp_path}/b'") == theirs


@pytest.mark.parametrize("program", ["no-such-program", "./no/such", "/etc/passwd", "/tmp"])
def test_what_cannot_be_started_is_refused_alike(program: str) -> None:
    with pytest.raises(OSError) as theirs:  # noqa: PT011 - its kind is compared
        subprocess.run([program], check=False)

    with pytest.raises(OSError) as ours:  # noqa: PT011 - as above
        spawn.spawn([program], None, None, (None, None, None), lambda: None)

    assert ours.value.errno == theirs.value.errno
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_the_streams_may_change_places(tmp_path: Path) -> None:
    """Stdout becomes stderr, and the other way round."""
    first, second = (os.open(tmp_path / name, os.O_CREAT | os.O_RDWR) for name in ("out", "err"))
    pid = os.fork()
    if pid == 0:
        os.dup2(first, 1)
        os.dup2(second, 2)
        argv = ["/bin/sh", "-c", "echo to stdout; echo to stderr >&2"]
        one = spawn.spawn(argv, None, None, (None, 2, 1), lambda: None)
        os._exit(os.waitpid(one, 0)[1])
    status = os.waitpid(pid, 0)[1]
    os.close(first)
    os.close(second)

    assert status == 0
    assert (tmp_path / "out").read_text() == "to stderr\n"
    assert (tmp_path / "err").read_text() == "to stdout\n"


def test_a_signal_reaches_the_program_and_never_a_handler_of_ours() -> None:
    """A SIGTERM that comes as early as can be ends the program, and this process does not take it for its own."""
    with Signals() as signals:
        for _ in range(50):
            pid = spawn.spawn(["/bin/sleep", "60"], None, None, (None, None, None), lambda: None)
            os.kill(pid, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
        signals.wait(0)

        assert not signals.stopping
