"""Whether this machine's kernel gives its user a mount namespace, and if not, why. Standard library only."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from runspec_namespaces.mount_namespace import enter, is_free, may_mount, take_rights

PROGRAMS = "/usr/bin:/bin"  # of the machine, and of no checkout
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def unseen(tops: Sequence[str], *, gpus: bool, entering: bool = False) -> dict[str, str]:
    """Return those of *tops*, folders at the root such as `/job`, that a process cannot have, and why.

    *gpus* says whether it needs GPUs. With *entering*, all that `enter` does is tried.
    """
    why = _without_driver() if gpus else None
    if why is None and tops and (refused := trial() if entering else refusal()):
        why = f"this machine allows no mount namespace ({refused})"
    if why is not None:
        return dict.fromkeys(tops, why)
    return {top: f"this machine has {top} itself" for top in tops if not is_free(top)}


def _without_driver() -> str | None:
    """Return why a process with GPUs can have no user namespace, or None if it can, or needs none.

    CUDA makes /dev/nvidia-uvm by a setuid program, which has no rights in a user namespace: nvidia-modprobe(1).
    """
    if os.geteuid() == 0 or not os.path.exists("/dev/nvidiactl"):
        return None
    return None if os.path.exists("/dev/nvidia-uvm") else "CUDA has not made /dev/nvidia-uvm yet"


@cache
def refusal() -> str | None:
    """Return why this machine's kernel gives its user no mount namespace, or None if it does.

    Sysctls, seccomp, AppArmor and capabilities all decide, so it is tried with unshare(1), which is quicker than a fork
    of a large process.
    """
    program = shutil.which("unshare", path=PROGRAMS)
    if program is None or _depends_on_program():
        return trial()
    kinds = ["--mount"] if may_mount() else ["--user", "--map-root-user", "--mount"]
    code, said = _start([program, *kinds, "true"])
    return None if code == 0 else said.strip().removeprefix("unshare: ").lower()


def _start(line: list[str]) -> tuple[int, str]:
    """Run a program to its end, and return its exit code and what it said; `subprocess` is slow to import."""
    reader, writer = os.pipe()
    pid = os.posix_spawn(
        line[0],
        line,
        {"PATH": PROGRAMS, "LC_ALL": "C"},
        file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, writer, 2)],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
    )
    os.close(writer)
    with open(reader, errors="replace") as said:
        text = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def _depends_on_program() -> bool:
    """Return whether AppArmor decides by the program who gets a user namespace, so that unshare(1) shows nothing.

    https://discourse.ubuntu.com/t/spec-unprivileged-user-namespace-restrictions-via-apparmor-in-ubuntu-23-10/37626
    """
    try:
        return APPARMOR.read_text().strip() == "1" and not may_mount()
    except OSError:  # the kernel has no such setting
        return False


def trial() -> str | None:
    """Return why a child process of this one could not `enter` a mount namespace, or None if it could."""
    answer, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            take_rights()
            enter(Path("/"), ())
            os._exit(0)
        except OSError as exc:
            os.write(writer, f"{exc.filename}: {exc.strerror}".lower().encode())
        finally:
            os._exit(1)
    os.close(writer)
    with open(answer, "rb") as file:
        why = file.read().decode()
    _, status = os.waitpid(child, 0)
    return None if status == 0 else why or f"the attempt ended with status {status}"
