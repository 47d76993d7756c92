"""A node finds its mounts and outputs at the paths of the spec, and this machine keeps its own root."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_local.supervisor.child import start_child
from runspec_namespaces import confined_commands, kernel_support, mount_namespace
from tests.support.requirements import lack, need
from tests.support.wait import until

pytestmark = pytest.mark.process

NOBODY = 65534
MS_SHARED = 1 << 20  # mount(2)
PR_SET_DUMPABLE = 4  # prctl(2): without it, /proc/self belongs to root after a change of the user
TOP = "/runspec-test"  # nobody has such a folder
# Has no namespace to give: the limit of user namespaces is 0, and no capability is left.
SHUT = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
ASK = "from runspec_namespaces.kernel_support import unseen; print(unseen(['/x'], gpus=False))"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a node, which any user may use."""
    if why := kernel_support.trial():
        lack(f"a kernel that allows mount namespaces ({why})")
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    place.chmod(0o777)
    Path(f"{place}{TOP}").mkdir()
    Path(f"{place}{TOP}").chmod(0o777)
    yield place
    shutil.rmtree(place)


def started(folder: Path, script: str) -> tuple[int, str]:
    """Run *script* as a node of *folder* runs; return its exit code and what it printed."""
    with open(folder / "log", "wb") as log:
        child = start_child(["/bin/sh", "-c", script], os.environ, folder, log, namespace=[TOP])
    until(lambda: child.ended)
    return child.reap(), (folder / "log").read_text()


def forked(do: Callable[[], None]) -> int:
    """Do it in a child process, and return how that ended."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def as_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)


def test_a_path_of_the_spec_is_one_of_the_node_and_none_of_the_machine(folder: Path) -> None:
    code, printed = started(folder, f"pwd; echo one > {TOP}/made; cat {folder}{TOP}/made")

    assert (code, printed) == (0, f"{folder}\none\n")
    assert Path(f"{folder}{TOP}/made").read_text() == "one\n"
    assert not os.path.lexists(TOP) and TOP not in Path("/proc/self/mountinfo").read_text()


def test_a_namespace_changes_no_other_folder(folder: Path) -> None:
    code, printed = started(folder, "ls -A / && echo > /dev/null")

    assert (code, sorted(printed.split())) == (0, sorted([*os.listdir("/"), TOP[1:]]))


def test_the_root_of_a_namespace_is_read_only(folder: Path) -> None:
    """Its new root is gone with the last process of the node."""
    code, printed = started(folder, "mkdir /runspec-lost")

    assert code != 0 and "Read-only file system" in printed
    assert not os.path.lexists("/runspec-lost")


def test_a_kept_root_entered_again_holds_what_was_made_in_it(folder: Path) -> None:
    """The commands of a multi-instance task on one node follow each other in one container."""
    root = folder / "root"
    Path(f"{root}{mount_namespace.OLD}").mkdir(parents=True)  # a process that was killed left it
    before = confined_commands.words_before(root, confined_commands.confined_to([folder], folder))

    first = subprocess.run([*before, "/bin/sh", "-c", "echo one > /made"], cwd=folder, check=False)
    words = [*before, "/bin/sh", "-c", "cat /made; ls -A /; test -s /etc/passwd"]
    again = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)

    assert (first.returncode, again.returncode) == (0, 0), again.stderr
    made, *entries = again.stdout.split()
    assert made == "one"
    assert {"made", *os.listdir("/")} <= set(entries)
    assert not os.path.lexists("/made")


def test_a_confined_process_sees_no_mount_that_the_machine_makes_later(folder: Path) -> None:
    """It could write there."""

    def node() -> None:
        mount_namespace.take_rights()
        mount_namespace.call_libc("unshare", mount_namespace.CLONE_NEWNS)
        mount_namespace.call_mount(None, "/", MS_SHARED | mount_namespace.MS_REC)
        mount_namespace.enter(folder, (), None, confined_commands.confined_to([folder], folder))
        os._exit(b" master:" in Path("/proc/self/mountinfo").read_bytes())

    assert forked(node) == 0


# What a user of a machine can write to, and files to make there
TRY = """\
for path; do touch "$path/runspec-made" && echo "$path"; done 2>> errors
echo > /dev/null && ls -A ~ && cat ~/kept
rm -r ~/old && mkdir ~/old && ls -A ~/old
"""


@pytest.mark.parametrize("old_kernel", [False, True])
@pytest.mark.parametrize("become", [as_nobody, lambda: None])
@pytest.mark.parametrize("container", [False, True])
def test_a_confined_process_writes_to_its_own_folders_alone(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    container: bool,
    become: Callable[[], None],
    old_kernel: bool,
) -> None:
    if old_kernel:
        monkeypatch.setattr(mount_namespace, "MOUNT_SETATTR", 1 << 20)
    for name in ("home", "home/old", "job", "own", "root", "another"):
        (folder / name).mkdir()
    (folder / "home" / "kept").write_text("of the machine\n")
    (folder / "home" / "old" / "file").touch()
    if become is as_nobody and os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
    monkeypatch.setenv("HOME", str(folder / "home"))
    private = [*mount_namespace.PRIVATE, f"{folder}/home", f"{folder}/job"]
    others = [str(folder / "another"), "/usr", "/etc", "/run", "/", os.getcwd()]

    def overlay() -> None:
        become()
        mount_namespace.take_rights()
        confinement = confined_commands.confined_to([], folder / "own")
        mount_namespace.enter(Path("/"), (), None, confinement)
        os._exit(not os.access(folder / "home", os.W_OK))

    if forked(overlay) != 0:
        lack(f"overlayfs in {folder}")

    def node() -> None:
        become()
        mount_namespace.take_rights()
        os.chdir(folder / "job")
        confinement = confined_commands.confined_to([folder / "job"], folder / "own")
        root = folder / "root" if container else None
        mount_namespace.enter(folder / "job", (), root, confinement)
        os.dup2(os.open("log", os.O_WRONLY | os.O_CREAT), 1)
        os.execv("/bin/sh", ["sh", "-c", TRY, "sh", *private, *others])

    assert forked(node) == 0
    made = (folder / "job" / "log").read_text().splitlines()
    own = [*private, "/"] if container else private
    assert made == [*own, "kept", "old", "runspec-made", "of the machine"]
    assert list((folder / "job").glob("runspec-made")) != []
    at = [*others, *mount_namespace.PRIVATE, f"{folder}/home"]
    assert [path for path in at if os.path.lexists(f"{path}/runspec-made")] == []
    assert (folder / "home" / "old" / "file").exists()


def test_whoever_is_not_root_stays_the_same_user(folder: Path) -> None:
    def node() -> None:
        as_nobody()
        mount_namespace.take_rights()
        mount_namespace.enter(folder, [TOP])
        os.execv("/bin/sh", ["sh", "-c", f"id -u > {TOP}/id && touch /runspec-lost; exit 7"])

    assert forked(node) == 7

    made = Path(f"{folder}{TOP}/id")
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    assert (made.stat().st_uid, made.read_text()) == (user, f"{user}\n")
    assert not os.path.lexists("/runspec-lost")


def test_a_node_in_a_user_namespace_ends_with_its_supervisor(folder: Path) -> None:
    def supervisor() -> None:
        as_nobody()
        mount_namespace.take_rights()
        with open(folder / "log", "wb") as log:
            line = ["/bin/sh", "-c", "echo begun; exec sleep 600"]
            child = start_child(line, os.environ, folder, log, namespace=[TOP])
        (folder / "pid").write_text(str(child.process.pid))
        until(lambda: "begun" in (folder / "log").read_text())
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(supervisor) == -signal.SIGKILL

    stat = Path("/proc", (folder / "pid").read_text(), "stat")
    until(lambda: not stat.exists() or b") Z" in stat.read_bytes())


def test_a_namespace_that_is_refused_names_the_way_out(folder: Path) -> None:
    shutil.rmtree(f"{folder}{TOP}")

    with pytest.raises(OSError, match=r"set providers: \{local: \{namespace: false\}\}"):
        started(folder, "true")


@pytest.mark.parametrize("entering", [False, True])
def test_a_machine_that_allows_none_is_found_by_trying(entering: bool) -> None:
    need("unshare", "setpriv")
    ask = ASK.format(entering)
    words = ["unshare", "-Ur", "/bin/sh", "-c", SHUT, "sh", sys.executable, "-c", ask]

    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.stdout.startswith("{'/x': 'this machine allows no mount namespace (unshare"), (
        done.stderr
    )


def test_a_folder_of_the_machine_is_hidden_from_nobody(folder: Path) -> None:
    tops = ["/etc", TOP, f"{folder}{TOP}", f"{folder}/absent"]

    assert kernel_support.unseen(tops, gpus=False) == {"/etc": "this machine has /etc itself"}


def test_where_apparmor_decides_by_the_program_another_one_is_not_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "unshare").write_text("#!/bin/sh\necho unshare: Not Here >&2; exit 1\n")
    (folder / "unshare").chmod(0o755)
    (folder / "setting").write_text("1\n")
    monkeypatch.setattr(kernel_support, "PROGRAMS", f"{folder}:/usr/bin:/bin")

    assert kernel_support.refusal.__wrapped__() == "not here"
    monkeypatch.setattr(kernel_support, "APPARMOR", folder / "setting")

    def ask() -> None:
        as_nobody()
        os._exit(0 if kernel_support.refusal.__wrapped__() is None else 1)

    assert forked(ask) == 0
