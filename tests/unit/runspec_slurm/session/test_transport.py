"""Commands come to the cluster whole, here and by one SSH connection, and it is told when nobody knows of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_jobs.provider import Conflict, Unavailable
from runspec_slurm.session import transport as transports
from runspec_slurm.session.shared_shell import SharedShell
from runspec_slurm.session.transport import Here, Ssh, Transport, transport
from tests.support.process_table import marked
from tests.support.requirements import need
from tests.support.slurm.login_node import Login, login

pytestmark = pytest.mark.slow
WORDS = ["", "two words", 'it\'s "me"', "$HOME `id`", "a\nb", "\\", "*", "-n", "grüße"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    with login(tmp_path_factory.mktemp("login")) as found:
        yield found


@pytest.fixture
def far(node: Login) -> Iterator[Callable[[], Ssh]]:
    """Makes ways to the login node that share what connections they have."""
    with short_folder() as sockets:
        yield lambda: Ssh("127.0.0.1", node.options, sockets)
        for socket in sockets.iterdir():
            words = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "127.0.0.1"]
            subprocess.run(words, capture_output=True, check=False)


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A socket's path has 108 bytes at most, and those of pytest are long."""
    with tempfile.TemporaryDirectory(prefix="rs-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(params=["here", "far", "alone"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Transport:
    """Give the ways to run a command: here, in the shell that commands share, and by a login of its own."""
    if request.param == "here":
        return Here()
    if request.param == "alone":
        monkeypatch.setattr(SharedShell, "run", lambda *_: None)
    made: Callable[[], Ssh] = request.getfixturevalue("far")
    return made()


def test_arguments_arrive_unchanged(way: Transport) -> None:
    done = way.run('for w; do printf "%s\\0" "$w"; done', WORDS)

    assert done.out.decode().split("\0")[:-1] == WORDS
    assert (done.code, done.lost) == (0, False)


def test_output_of_the_login_is_not_part_of_the_answer(tmp_path: Path) -> None:
    with login(tmp_path, says="Welcome, 7 news") as node, short_folder() as sockets:
        way = Ssh("127.0.0.1", (*node.options, "ControlPersist=no"), sockets)

        done = way.run('printf "%s\\n" "$1"', ["4"])
        none = way.run("exit 7")

    assert (done.out, none.out, none.code) == (b"4\n", b"", 7)


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "tcsh", "ksh", "mksh"])
def test_a_line_is_the_same_for_the_shell_of_every_login(shell: str) -> None:
    line = transports.remote(
        ["/bin/sh", "-c", 'printf "%s\\0" "$@"\n:', "sh", *WORDS, "a!b", "\\\\"]
    )

    inner = line[line.index(" sh '") + 5 : -1]
    assert not set("\n!'") & set(inner), "csh has another meaning for it"
    assert "\\\\" not in inner, "fish has another meaning for it"
    need(shell)
    out = subprocess.run([shell, "-c", line], capture_output=True, check=True).stdout
    assert out.decode().split("\0")[:-1] == [*WORDS, "a!b", "\\\\"]


def test_content_arrives_byte_for_byte(way: Transport) -> None:
    content = bytes(range(256)) * 8192  # more than a pipe holds, both ways

    done = way.run("cat", content=[content[:10], content[10:]])

    assert done.out == content


def test_a_command_has_its_own_code_and_errors(way: Transport) -> None:
    done = way.run("echo no >&2; exit 7")

    assert (done.code, done.err, done.lost) == (7, "no", False)


def test_a_command_that_reads_nothing_may_end_before_all_is_sent(way: Transport) -> None:
    done = way.run("exit 3", content=[b"x" * (1 << 20)])

    assert done.code == 3


def test_a_command_that_takes_too_long_is_ended_with_its_children(
    way: Transport, tmp_path: Path
) -> None:
    place = str(tmp_path / "late")

    done = way.run('LATE="$1" sh -c "sleep 600; :"; :', [place], timeout_s=0.3)

    assert done.lost
    if isinstance(way, Here):  # elsewhere nobody knows: that is what *lost* says
        end = time.monotonic() + 60
        while alive_with(place):
            assert time.monotonic() < end, "it goes on"
            time.sleep(0.02)


def alive_with(word: str) -> bool:
    """Say whether a process has *word* in its environment; one that has ended has none. proc(5)"""
    return bool(marked(word))


def test_unreadable_content_ends_the_command(way: Transport) -> None:
    def content() -> Iterator[bytes]:
        yield b"half"
        raise Conflict("it has changed")

    with pytest.raises(Conflict, match="it has changed"):
        way.run("cat >/dev/null; sleep 60", content=content())


def test_all_commands_share_one_connection(far: Callable[[], Ssh], node: Login) -> None:
    before = node.connections

    for _ in range(3):
        assert far().run("echo hello").out == b"hello\n"

    assert node.connections == before + 1


def test_a_connection_that_breaks_in_the_middle_is_no_answer(
    far: Callable[[], Ssh], node: Login, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def content() -> Iterator[bytes]:
        end = time.monotonic() + 60
        while not begun.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        node.drop()
        yield b""

    done = far().run(': >"$1"; sleep 60', [str(begun)], content=content())

    assert (done.code, done.lost) == (255, True)
    assert far().run("echo again").out == b"again\n", "and the next command makes another"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("Port=1", "Connection refused"),
        ("IdentityFile=/dev/null", "Permission denied"),
        ("UserKnownHostsFile=/dev/null", "Host key verification failed"),
        ("NoSuchOption=1", "Bad configuration option"),
    ],
)
def test_a_command_that_did_not_start_is_reported_with_a_hint(
    node: Login, option: str, says: str
) -> None:
    name = option.partition("=")[0]
    others = [other for other in node.options if other.partition("=")[0] != name]

    with short_folder() as sockets, pytest.raises(Unavailable, match=says) as told:
        Ssh("127.0.0.1", (option, *others), sockets).run("echo hello")

    assert told.value.hint


@pytest.mark.parametrize(
    "said",
    [
        "cat: /etc/motd.d/x: Permission denied",
        "bash: line 3: Permission denied (site policy)",
        "see ssh: connect to host gate.example port 22",
        "ls: unknown option -- x",
        "Host key verification failed for git.example",
    ],
)
def test_a_message_of_the_login_leaves_the_outcome_unknown(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection was lost then: by sbatch a job may have been submitted."""
    (tmp_path / "ssh").write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with short_folder() as sockets:
        done = Ssh("login", (), sockets).run("sbatch")

    assert done.lost


def test_a_host_is_never_read_as_an_option(node: Login) -> None:
    with short_folder() as sockets:
        argv = Ssh("login", ("Port=2222",), sockets).argv()

    assert argv[-2:] == ["--", "login"]
    assert argv.index("Port=2222") < argv.index("BatchMode=yes"), "the first value counts"


@pytest.mark.process
def test_settings_for_logging_in_by_hand_do_not_apply(tmp_path: Path) -> None:
    """As OpenSSH itself reads them, with an option that only another version of it knows."""
    need("ssh")
    config = tmp_path / "config"
    config.write_text(
        "Host login\n  RemoteCommand tmux new -A -s main\n  RequestTTY yes\n  StdinNull yes\n"
        "  ForkAfterAuthentication yes\n  SessionType none\n  PermitLocalCommand yes\n"
        "  LocalCommand touch /tmp/x\n  UseKeychain yes\n"
    )
    with short_folder() as sockets:
        program, *words = Ssh("login", (), sockets).argv()
        line = [program, "-G", "-F", str(config), *words]
        done = subprocess.run(line, capture_output=True, text=True, check=True)

    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert found.get("remotecommand", "none") == "none"
    wanted = {"requesttty": "false", "stdinnull": "no", "forkafterauthentication": "no"}
    wanted |= {"sessiontype": "default", "permitlocalcommand": "no"}
    assert {name: found[name] for name in wanted} == wanted


def test_a_folder_of_somebody_else_is_no_place_for_a_connection(tmp_path: Path) -> None:
    with short_folder() as sockets:
        os.chmod(sockets, 0o755)

        with pytest.raises(Unavailable, match="other users can access"):
            Ssh("login", (), sockets).argv()


def test_where_no_name_is_short_enough_there_is_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "state_folder", lambda: tmp_path / ("x" * 90))
    with short_folder() as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))

        argv = Ssh("login", ()).argv()

    assert any(word.startswith(f"ControlPath={runtime}/runspec-ssh-") for word in argv)


def test_without_a_host_commands_are_of_this_machine() -> None:
    assert isinstance(transport(None), Here)
    assert isinstance(transport("login"), Ssh)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Ssh]]:
    """Makes ways whose ssh is a piece of shell, for which $1 is what is to be run."""
    with short_folder() as folder:
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

        def made(text: str) -> Ssh:
            (folder / "ssh").write_text(f'#!/bin/sh\nfor w; do :; done\nset -- "$w"\n{text}\n')
            (folder / "ssh").chmod(0o700)
            return Ssh("login", (), folder / "sockets")

        yield made


def test_a_banner_is_not_part_of_the_answer(
    fake: Callable[[str], Ssh],
) -> None:
    far = fake('echo "Welcome! 12 13"; echo; sh -c "$1"')

    assert far.run("echo hello").out == b"hello\n"
    assert far.run("exit 7") == (7, b"", "", False)


def test_a_command_that_has_begun_is_never_said_not_to_have(fake: Callable[[str], Ssh]) -> None:
    """Whatever it has said itself: "Permission denied" is what ssh says of one that has not."""
    far = fake('sh -c "$1"; exit 255')

    done = far.run("echo half; echo 'cat: x: Permission denied' >&2", content=iter(()))

    assert (done.lost, done.out) == (True, b"half\n")


def test_a_login_that_runs_something_else_is_told(fake: Callable[[str], Ssh]) -> None:
    far = fake('echo "This account is currently not available." >&2; exit 1')

    with pytest.raises(Unavailable, match="not available") as told:
        far.run("echo hello")

    assert "/bin/sh" in (told.value.hint or "")
