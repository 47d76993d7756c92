"""Commands behind ssh share a login shell, and each ends as if it had logged in by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runspec_jobs.provider import Unavailable
from runspec_slurm.session import shared_shell
from runspec_slurm.session.shared_shell import LOOP, MOST_BYTES, close_shells
from runspec_slurm.session.transport import Ssh
from runspec_slurm.timing import Timing
from tests.support.process_table import marked
from tests.support.requirements import need
from tests.support.wait import until
from tests.unit.runspec_slurm.session.test_transport import short_folder

pytestmark = pytest.mark.process
BYTES = bytes(range(256)) * 20
BUSY = "echo x >>begun; while [ ! -e go ]; do sleep 0.01; done"
# A stand-in for ssh; $1 is the line that a login runs. USR1 breaks its connection, TERM is the end of an idle shell.
SSH = """\
#!/bin/sh
for w; do :; done
set -- "$w"
cd FOLDER
echo x >>logins
LOGIN=$$; export LOGIN
LOGS_IN
exec 3<&0
sh -c "$1" <&3 &
trap 'kill -9 $!; exit 255' USR1
trap 'kill -9 $!; exit 0' TERM
wait $!
"""


@dataclass
class Desk:
    """The way to a login node of a test's own."""

    folder: Path
    way: Ssh

    @property
    def logins(self) -> int:
        file = self.folder / "logins"
        return len(file.read_text().split()) if file.exists() else 0

    def login_does(self, text: str) -> None:
        program = self.folder / "ssh"
        program.write_text(SSH.replace("FOLDER", str(self.folder)).replace("LOGS_IN", text))
        program.chmod(0o700)

    @property
    def shell(self) -> subprocess.Popen[bytes]:
        process = self.way.shell().process
        assert process is not None
        return process


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with short_folder() as folder:
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        desk = Desk(folder, Ssh("login", (), folder / "sockets"))
        desk.login_does("")
        yield desk
        close_shells()


def test_commands_of_a_process_share_one_login_shell(desk: Desk) -> None:
    for code in range(3):
        way = Ssh("login", (), desk.folder / "sockets")
        done = way.run('echo "$1"; exit "$1"', [str(code)])
        assert done == (code, f"{code}\n".encode(), "", False)

    assert desk.logins == 1


def test_a_command_leaves_nothing_for_the_next(desk: Desk) -> None:
    desk.way.run('cd /tmp; mark=1 key=2; umask 0; export mark key; exec >&- 2>&-; trap "" TERM')

    done = desk.way.run('echo "$PWD ${mark-}${key-} $(umask)"; cat; echo no >&2')

    mask = os.umask(0)
    os.umask(mask)
    assert (done.out, done.err) == (f"{desk.folder}  {mask:04o}\n".encode(), "no")


def test_variables_of_the_login_are_those_of_a_command(desk: Desk) -> None:
    """Those as well that have names which the loop of the shared shell uses, but not its values."""
    desk.login_does("mark=1 line=2 content=3 err=4 A='a b'; export mark line content err A")

    done = desk.way.run('cat; echo "$A ${mark-}${line-}${content-}${err-}"; env', content=[b"x\n"])

    assert done.out.startswith(b"x\na b \n")
    assert b"\nmark=" not in done.out


@pytest.mark.parametrize("shell", ["dash", "bash --posix", "busybox sh", "zsh --emulate sh", "ksh"])
def test_any_sh_carries_bytes_both_ways(shell: str) -> None:
    need(shell.partition(" ")[0])
    words = [shared_shell.escape(b) for b in (b"exec sh -c 'cat; echo no >&2; exit 7'", BYTES)]

    done = subprocess.run(
        [*shell.split(), "-c", LOOP, "sh", "key"],
        input=b"key mark %s %s\n" % (words[0], words[1]) + b"key mark cut-off",
        capture_output=True,
    )

    assert done.stdout == b"key\nmark\n" + BYTES + b"mark 7\nno\nmark.\n"
    assert done.stderr == b""


def test_no_text_but_a_request_is_run(desk: Desk) -> None:
    """As if a program of the login had read the beginning of a request, whose content comes from a spec."""
    done = subprocess.run(
        ["sh", "-c", LOOP, "sh", "key"],
        input=b"touch\\0040x touch\\0040x x\n",
        capture_output=True,
        cwd=desk.folder,
    )

    assert done.stdout == b"key\n"
    assert not (desk.folder / "x").exists()


@pytest.mark.parametrize(("shell", "before"), [("bash", "enable -n printf; "), ("mksh", "")])
def test_a_printf_that_shows_its_arguments_is_not_used(shell: str, before: str) -> None:
    """Content may be a secret, and everybody on a login node sees the arguments of a program."""
    need(shell)
    done = subprocess.run(
        [shell, "-c", f"{before}{LOOP}", "sh", "key"], input=b"", capture_output=True
    )

    assert (done.returncode, done.stdout) == (0, b"")


def test_output_may_be_large_and_look_like_an_end(desk: Desk) -> None:
    """Each mark is random, and no command knows its own."""
    first = desk.way.run('tr "\\0" "\\n" </proc/$PPID/environ; tr "\\0" "\\n" </proc/$PPID/cmdline')
    text = b"0123456789abcdef" * 2 + b" 0\n\n" + b"0123456789abcdef" * 2 + b".\n"

    done = desk.way.run('cat; head -c 20000000 /dev/zero; printf "%s" "$1"', ["x"], [text])

    assert done.out == text + bytes(20_000_000) + b"x"
    assert (done.code, first.code, desk.logins) == (0, 0, 1)


def test_errors_are_as_long_as_by_a_login_of_its_own(desk: Desk) -> None:
    script = 'head -c 300000 /dev/zero | tr "\\0" x >&2; echo out; exit 3'

    done = desk.way.run(script)

    assert (done.code, done.out) == (3, b"out\n")
    assert done == desk.way.run(script, content=iter(()))
    assert desk.logins == 2


@pytest.mark.parametrize("content", [[b"x" * (MOST_BYTES + 1)], iter([b"x" * 10])])
def test_a_stream_and_what_is_large_have_a_login_of_their_own(
    desk: Desk, content: list[bytes]
) -> None:
    desk.way.run(":")

    assert len(desk.way.run("cat", content=content).out) in (10, MOST_BYTES + 1)
    assert desk.logins == 2


@pytest.mark.parametrize("script", ["kill -9 $$", "kill $$", "exec sh -c 'kill -9 $$'"])
def test_a_command_that_a_signal_kills_is_lost_and_the_shell_goes_on(
    desk: Desk, script: str
) -> None:
    """Ssh exits with 255 then."""
    done = desk.way.run(f"echo half; {script}")

    assert (done.code, done.out, done.lost) == (255, b"half\n", True)
    assert desk.way.run("echo hello").out == b"hello\n"
    assert desk.logins == 1


def test_a_connection_that_breaks_during_a_command_leaves_it_lost(desk: Desk) -> None:
    desk.way.run(":")

    done = desk.way.run(
        "echo half; echo 'cat: x: Permission denied' >&2; kill -USR1 $LOGIN; sleep 0.3"
    )

    assert (done.code, done.out, done.lost) == (255, b"half\n", True)
    assert desk.way.run("echo hello").out == b"hello\n"
    assert desk.logins == 2


def test_a_shell_that_has_ended_between_commands_is_replaced(desk: Desk) -> None:
    for signal in ("USR1", "TERM"):
        desk.way.run("echo $LOGIN >pid")
        pid = (desk.folder / "pid").read_text().strip()
        subprocess.run(["kill", f"-{signal}", pid], check=True)
        desk.shell.wait()

    assert desk.way.run("echo hello") == (0, b"hello\n", "", False)
    assert desk.logins == 3


def test_a_shell_that_ends_by_itself_instead_of_a_command_is_replaced(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bash ends that waits for a request longer than TMOUT: the command certainly did not begin."""
    desk.way.run(": >begun")
    shell = desk.shell
    monkeypatch.setattr(shell, "poll", lambda: None)  # it ends after this client has looked
    subprocess.run(["kill", "-TERM", str(shell.pid)], check=True)
    until(lambda: Path(f"/proc/{shell.pid}/stat").read_text().split()[2] == "Z")

    assert desk.way.run("echo x >>ran; echo hello").out == b"hello\n"
    assert (desk.folder / "ran").read_text() == "x\n"
    assert desk.logins == 2


def test_a_connection_that_breaks_before_a_command_is_known_to_begin_leaves_it_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the login itself has said before what ssh says of a command that never began."""
    desk.login_does('echo "Permission denied (publickey)." >&2')
    desk.way.run(":")
    shell = desk.shell
    monkeypatch.setattr(shell, "poll", lambda: None)
    subprocess.run(["kill", "-USR1", str(shell.pid)], check=True)
    until(lambda: Path(f"/proc/{shell.pid}/stat").read_text().split()[2] == "Z")

    assert desk.way.run("sbatch").lost


def test_a_command_without_an_answer_is_ended_and_the_next_has_another_shell(desk: Desk) -> None:
    began = time.monotonic()

    done = desk.way.run("echo half; sleep 60", timeout_s=0.4)

    assert (done.out, done.err, done.lost) == (b"half\n", "no answer in 0 s", True)
    assert time.monotonic() - began < 10
    assert desk.way.run("echo hello").out == b"hello\n"
    assert desk.logins == 2


def test_a_shell_in_use_is_not_waited_for(desk: Desk) -> None:
    other = threading.Thread(target=desk.way.run, args=[BUSY])
    other.start()
    until((desk.folder / "begun").exists)

    assert desk.way.run("echo hello; : >go").out == b"hello\n"
    other.join()
    assert desk.logins == 2


@pytest.mark.parametrize(
    "login",
    [
        'case $1 in *"while read"*) exit 1 ;; esac',  # what forbids it
        'case $1 in *"while read"*) exec sleep 60 ;; esac',  # a login that never ends with it
        'case $1 in *"while read"*) echo "Connection reset by peer" >&2; exit 255 ;; esac',
        "exec 0</dev/null",  # a shell that gets nothing
        "cat >/dev/null",  # a login that takes all of it
    ],
)
def test_where_no_shell_can_be_held_each_command_logs_in(desk: Desk, login: str) -> None:
    desk.way = Ssh("login", (), desk.folder / "sockets", Timing(login_s=0.5))
    desk.login_does(login)

    for _ in range(3):
        assert desk.way.run("cat; echo hello", content=[b"1"]).out.endswith(b"hello\n")

    assert desk.logins == 4


def test_a_shell_that_takes_the_only_session_is_given_up(desk: Desk) -> None:
    """As with MaxSessions 1 of sshd, where a second connection needs a password."""
    desk.login_does(
        'mkdir session 2>/dev/null || { echo "a@b: Permission denied (publickey)." >&2; exit 255; }\n'
        'sh -c "$1"; code=$?; rmdir session; exit $code'
    )
    desk.way.run(":")
    content = [b"x" * MOST_BYTES * 2]

    assert len(desk.way.run("cat", content=content).out) == MOST_BYTES * 2
    assert desk.way.run("echo hello").out == b"hello\n"


def test_a_refused_login_is_not_repeated(desk: Desk) -> None:
    desk.login_does('echo "a@b: Permission denied (publickey)." >&2; exit 255')

    with pytest.raises(Unavailable, match="Permission denied"):
        desk.way.run("echo hello")

    assert desk.logins == 1
    desk.login_does("")
    assert [desk.way.run("echo hello").out for _ in range(3)] == [b"hello\n"] * 3
    assert desk.logins == 2


@pytest.mark.parametrize("ends", ["", "os.kill(os.getpid(), 9)"], ids=["ends", "is killed"])
def test_the_shell_ends_with_its_process(desk: Desk, ends: str) -> None:
    word = f"SHARED={desk.folder}"
    desk.login_does(f"export {word}")
    text = (
        "import os, sys; from pathlib import Path; from runspec_slurm.session.transport import Ssh\n"
        f"print(Ssh('login', (), Path(sys.argv[1])).run('echo hello').out); sys.stdout.flush(); {ends}"
    )
    words = [sys.executable, "-c", text, str(desk.folder / "sockets")]
    done = subprocess.run(words, capture_output=True, text=True)

    assert "hello" in done.stdout, done.stderr
    until(lambda: not marked(word))


def test_an_exception_in_the_middle_ends_the_shell(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C: the answer that is still to come is none of the next command's."""
    desk.way.run(":")
    real = shared_shell.read_answer
    monkeypatch.setattr(
        shared_shell, "read_answer", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        desk.way.run("echo one")
    monkeypatch.setattr(shared_shell, "read_answer", real)

    assert desk.way.run("echo two").out == b"two\n"
    assert desk.logins == 2
