"""What a test needs of the machine: where CI lacks it, that is a failure that names it."""

from __future__ import annotations

import os
import shutil

import pytest

from runspec_emulators.azure_services.blob import package

PACKAGES = {
    "ps": "procps",
    "busybox": "busybox-static",
    "node": "nodejs",
    "munged": "munge",
    "sinfo": "slurm-client",
    "sshd": "openssh-server",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}  # where the command is not the package


def need(*commands: str) -> None:
    """Skip the test where one of *commands* is not installed; fail it in CI (RUNSPEC_CI=1)."""
    missing = [command for command in commands if not _there(command)]
    if missing:
        names = ", ".join(PACKAGES.get(command, command) for command in missing)
        lack(f"{names} not installed; tools/setup --test installs what the tests need")


def _there(command: str) -> bool:
    if command == "azurite":  # a package of npm's, in the cache: it needs node, and is no command
        return package() is not None and _there("node")
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # daemons are there
    return shutil.which(command, path=path) is not None


def need_root() -> None:
    """Skip the test for anybody but root; fail it in CI."""
    if os.geteuid() != 0:
        lack("root")


def lack(what: str) -> None:
    """Skip for want of *what*; in CI, fail: there, everything is to be tested."""
    if os.environ.get("RUNSPEC_CI") == "1":
        pytest.fail(f"this run is to test everything, and lacks: {what}", pytrace=False)
    pytest.skip(f"needs {what}")
