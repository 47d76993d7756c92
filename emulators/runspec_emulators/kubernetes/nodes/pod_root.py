"""Run a command in the root of a container: mounts, and devices of its own. Run as a program.

The file that its argument names has all that it needs. Whoever is not root loses the right to mount with the command,
so that this program does it before.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

MISSING = 128
"""The exit code where the command could not be started; the pipe `failed` then says why."""
READ_ONLY = (
    1 | 2 | 4
)  # MS_RDONLY, MS_NOSUID, MS_NODEV: what a user namespace may not take away stays
STAGED = "/.dev"


def main(given: dict[str, Any]) -> None:
    sys.path.insert(0, given["sources"])
    from runspec_namespaces import mount_namespace

    confinement = mount_namespace.Confinement(*given["confinement"])
    mount_namespace.take_rights()
    mount_namespace.enter(Path("/"), (), Path(given["root"]), confinement)
    bind = mount_namespace.MS_BIND | mount_namespace.MS_REC
    own_devices(mount_namespace, bind)
    for source, target in given["mounts"]:
        make_target(source, target)
        mount_namespace.call_mount(source, target, bind)
        if target in given["read_only"]:
            mount_namespace.call_mount(None, target, mount_namespace.MS_REMOUNT | bind | READ_ONLY)
    os.makedirs(given["cwd"], exist_ok=True)
    os.chdir(given["cwd"])
    os.set_inheritable(given["failed"], False)  # its end says that the command began
    os.execvp(given["argv"][0], given["argv"])


def make_target(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()


def own_devices(mounts: Any, bind: int) -> None:
    """Have a /dev in which files can be made, with the devices of this machine."""
    os.makedirs(STAGED, exist_ok=True)
    flags = mounts.MS_NOSUID
    mounts.call_mount("tmpfs", STAGED, flags, kind="tmpfs", data="mode=755")
    for entry in list(os.scandir("/dev")):
        target = f"{STAGED}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
            continue
        try:
            make_target(entry.path, target)
            mounts.call_mount(entry.path, target, bind)
        except OSError:  # a mount that this user may not take along
            continue
    mounts.call_mount(STAGED, "/dev", bind)


if __name__ == "__main__":
    GIVEN = json.loads(Path(sys.argv[1]).read_text())
    try:
        main(GIVEN)
    except OSError as exc:
        text = f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc)
        os.write(GIVEN["failed"], text.encode())
        os._exit(MISSING)
