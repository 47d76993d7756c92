"""A mount namespace for a node, in which its mounts and outputs have the paths of the spec. Standard library only.

Only root can make a folder such as /job at the root of the machine, and no node may disturb another. So the process
gets a root of its own: a tmpfs with every entry of the machine's root, and with folders of the node beside them. It is
gone when the last process in it has ended, however that ended. Whoever is not root needs a user namespace as well,
which maps the user to the same user: mount_namespaces(7), user_namespaces(7), pivot_root(2).

The processes of emulated jobs, in addition, change nothing of this machine by accident: see `Confinement`. Root can
undo that, since it may mount.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000  # unshare(2), <linux/sched.h>
CAP_SYS_ADMIN = 21  # <linux/capability.h>
# mount(2), <linux/mount.h>
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 1, 2, 4, 32
MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 4096, 16384, 1 << 18, 1 << 19
MNT_DETACH = 2  # umount2(2)
FIRST = "/proc"  # an existing folder for the new root, until it is the root
OLD = "/.runspec-old-root"
TURN_OFF = "set providers: {local: {namespace: false}}"

# mount_setattr(2), since Linux 5.12; it has this number on every architecture but Alpha
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
# What keeps its meaning when a mount is made read-only, by the names in mountinfo: proc(5). In a user namespace, the
# kernel refuses to take one of these away.
FLAGS = {
    "nosuid": 2,
    "nodev": 4,
    "noexec": 8,
    "noatime": 1024,
    "nodiratime": 2048,
    "relatime": 1 << 21,
}
MS_STRICTATIME = 1 << 24  # what a mount without noatime and relatime has
PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - hidden, and not used
KERNEL = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
)  # the same devices as in a container of Docker


class Confinement(NamedTuple):
    """What a process can write that can change nothing of this machine: these folders, and all of /proc/PID.

    It has folders for temporary files of its own, which begin empty.
    """

    folder: str
    """Keeps the files of the folders in PRIVATE and what is written to *homes*."""
    writable: Mapping[str, str]
    """Folders by their paths with links, as the process knows them: the paths without links."""
    seen: Mapping[str, str]
    """What it has to see in the folders in PRIVATE, likewise."""
    homes: Sequence[str]
    """Folders that show what this machine has in them. What is written to them is kept elsewhere: overlayfs."""


def is_free(top: str) -> bool:
    """Return whether another folder at *top* would hide nothing of this machine."""
    try:
        return not os.path.lexists(top) or not os.listdir(top)
    except OSError:  # the path cannot be read, or is no folder
        return False


def take_rights() -> None:
    """Give this process the right to `enter`, and with it the processes that it forks.

    Root has it. Anybody else gets a user namespace, which all nodes of a run share: MPI looks into the processes of
    other nodes. This process must have one thread. Raise OSError if the kernel does not allow it.
    """
    if may_mount():
        return
    user, group = os.geteuid(), os.getegid()
    call_libc("unshare", CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text)


def may_mount() -> bool:
    """Return whether this process has CAP_SYS_ADMIN: capabilities(7), proc(5)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    mask = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(mask, 16) >> CAP_SYS_ADMIN & 1)


def enter(
    folder: Path,
    tops: Sequence[str],
    root: Path | None = None,
    confinement: Confinement | None = None,
) -> None:
    """Give this process a root that also has *tops*, such as `/job`, which are in *folder*; then go to *folder*.

    Nothing can be made in that root, unless a folder *root* is given, which keeps what is made there: it is empty at
    first, and other processes may enter it later. Whether the folders of this machine can be written is up to
    *confinement*; without it, they can. This process must be about to start another program. Raise OSError if
    the kernel does not allow it: the process is then half way, and must end.
    """
    call_libc("unshare", CLONE_NEWNS)
    # Mounts made here are not seen on the machine. Those made there later are seen here, where they can be written,
    # unless there is a confinement.
    call_mount(None, "/", (MS_SLAVE if confinement is None else MS_PRIVATE) | MS_REC)
    if root is None:
        call_mount("tmpfs", FIRST, MS_NOSUID | MS_NODEV, kind="tmpfs", data="mode=755")
    else:
        call_mount(str(root), FIRST, MS_BIND)
    os.makedirs(FIRST + OLD, exist_ok=True)
    call_libc("pivot_root", FIRST.encode(), (FIRST + OLD).encode())
    os.chdir("/")
    bound = []
    for entry in list(os.scandir(OLD)):
        if f"/{entry.name}" in tops:
            continue
        if entry.is_symlink():
            # The kept root has it from an earlier process.
            with contextlib.suppress(FileExistsError):
                os.symlink(os.readlink(entry.path), f"/{entry.name}")
        elif root is not None and is_free(
            entry.path
        ):  # files made in this folder stay with the root
            os.makedirs(f"/{entry.name}", exist_ok=True)
        else:
            _bind(entry.path, f"/{entry.name}")
            bound.append(f"/{entry.name}")
    if confinement is not None:
        _confine(bound, confinement)
    for top in tops:
        _bind(f"{folder}{top}", top)
    call_libc("umount2", OLD.encode(), MNT_DETACH)
    if root is None:
        os.rmdir(OLD)  # in a kept root it stays, since another process may be entering that
        # What a program wrote there would be lost without a word.
        call_mount(None, "/", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chdir(folder)


def _confine(bound: Sequence[str], confinement: Confinement) -> None:
    """Make what is *bound* of this machine read-only, and add the folders that can be written."""
    for path in filter(os.path.exists, KERNEL):
        _bind(path, path)
    for path in [*(path for path in bound if path != "/proc"), *filter(os.path.exists, KERNEL)]:
        _forbid_writes(path)
    for path in PRIVATE:
        kept = f"{OLD}{confinement.folder}{path}"
        if os.path.realpath(path) == path and os.path.isdir(path):
            os.makedirs(kept, exist_ok=True)
            os.chmod(kept, 0o1777)  # noqa: S103 - as these folders have it
            call_mount(kept, path, MS_BIND)
    for path, real in confinement.seen.items():
        # An earlier process leaves an empty folder in its place, and a folder above it may be seen already.
        if not (os.path.exists(path) and os.path.samefile(path, f"{OLD}{real}")):
            _bind(f"{OLD}{real}", path)
            _forbid_writes(path)
    for path in confinement.homes:
        if os.path.isdir(f"{OLD}{path}"):
            os.makedirs(path, exist_ok=True)
            _cover(path, f"{OLD}{confinement.folder}/{os.urandom(8).hex()}")
    for path, real in confinement.writable.items():
        _bind(f"{OLD}{real}", path)


def _cover(path: str, kept: str) -> None:
    """Keep in *kept* what is written to *path*. Where the kernel refuses, *path* stays read-only.

    https://docs.kernel.org/filesystems/overlayfs.html
    """
    layers = [f"{OLD}{path}", f"{kept}/upper", f"{kept}/work"]
    for layer in layers[1:]:
        os.makedirs(layer)
    import shutil  # slow to import

    shutil.copystat(layers[0], layers[1])
    fds = [os.open(layer, os.O_PATH) for layer in layers]  # whatever characters a path has
    names = ("lowerdir", "upperdir", "workdir")
    options = [f"{n}=/proc/self/fd/{fd}" for n, fd in zip(names, fds, strict=True)]
    if os.geteuid() != 0:
        options.append("userxattr")
    below = [mount for mount in _mounts(layers[0]) if mount != layers[0]]
    try:
        call_mount("overlay", path, MS_NOSUID | MS_NODEV, kind="overlay", data=",".join(options))
    except OSError:
        if not os.path.samefile(layers[0], path):  # the path lies in a private folder
            _bind(layers[0], path)
            _forbid_writes(path)
        return
    finally:
        for fd in fds:
            os.close(fd)
    for mount in below:  # an overlay shows one file system
        _bind(mount, mount.removeprefix(OLD))
        _forbid_writes(mount.removeprefix(OLD))


def _forbid_writes(path: str) -> None:
    """Make the mount at *path* read-only, and all those below it."""
    import ctypes

    attributes = struct.pack("=4Q", MOUNT_ATTR_RDONLY, 0, 0, 0)
    arguments = (ctypes.c_long(MOUNT_SETATTR), ctypes.c_int(AT_FDCWD), os.fsencode(path))
    try:
        call_libc(
            "syscall", *arguments, ctypes.c_uint(AT_RECURSIVE), attributes, ctypes.c_size_t(32)
        )
    except OSError as exc:
        if exc.errno not in (errno.ENOSYS, errno.EPERM):  # an old kernel, or an old filter of calls
            raise
        _remount_read_only(path)


def _remount_read_only(path: str) -> None:
    for mount, options in _mounts(path).items():
        flags = sum(FLAGS.get(option, 0) for option in options)
        if not {"noatime", "relatime"} & {*options}:
            flags |= MS_STRICTATIME
        try:
            call_mount(None, mount, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)
        except OSError as exc:
            if exc.errno not in (
                errno.EINVAL,
                errno.ENOENT,
                errno.EACCES,
            ):  # hidden by another mount
                raise


def _mounts(path: str) -> dict[str, list[str]]:
    """Return the mount points at *path* and below it, as this process sees them, with their options: proc(5)."""
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split(b" ")
        point = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), fields[4])
        name = os.fsdecode(point)
        if name == path or name.startswith(f"{path}/"):
            mounts[name] = fields[5].decode().split(",")
    return mounts


def _bind(source: str, target: str) -> None:
    """Show *source*, and all that is mounted below it, at *target*, which is made unless an earlier process made it."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_NOFOLLOW | os.O_WRONLY, 0o600))
    call_mount(source, target, MS_BIND | MS_REC)


def call_mount(
    source: str | None,
    target: str,
    flags: int,
    kind: str | None = None,
    data: str | None = None,
) -> None:
    import ctypes

    arguments = (None if word is None else os.fsencode(word) for word in (source, target, kind))
    call_libc("mount", *arguments, ctypes.c_ulong(flags), None if data is None else data.encode())


@cache
def _open_libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def call_libc(name: str, *arguments: Any) -> None:
    """Call a function of libc, or raise OSError with its name."""
    import ctypes  # slow to import, and a plan enters no namespace

    libc: Any = _open_libc()
    if libc[name](*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def begin(root: str, confinement: Confinement, argv: Sequence[str]) -> None:
    """Become the program *argv* with a root of its own, in the same folder as now, or in / if it does not see that.

    *root* is the folder that keeps what is made in that root, as the file system of a container does, or "" where
    nothing can be made in it, as on a machine of somebody else. `confined_commands` makes the commands that do so.
    """
    here = os.getcwd()
    take_rights()
    enter(Path("/"), (), Path(root) if root else None, confinement)
    # The new root does not have this folder: the process stays in /.
    with contextlib.suppress(FileNotFoundError):
        os.chdir(here)
    os.execvp(argv[0], [*argv])


if __name__ == "__main__":
    begin(sys.argv[1], Confinement(*json.loads(sys.argv[2])), sys.argv[3:])
