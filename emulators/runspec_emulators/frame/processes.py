"""Processes of jobs: what they inherit, how they are found wherever they have gone, and signals to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

INHERITED = (  # none of these variables is a secret
    "PATH LANG LC_ALL TZ SSL_CERT_FILE SSL_CERT_DIR PIP_CERT UV_SYSTEM_CERTS HTTP_PROXY HTTPS_PROXY "
    "NO_PROXY http_proxy https_proxy no_proxy"
).split()


def inherited() -> dict[str, str]:
    """Return the variables that processes of jobs have from whoever started the emulator.

    With these they find their way out of this machine, as a machine of the service has its own.
    """
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def marked(mark: str) -> Iterator[int]:
    """Yield the processes whose environment contains *mark*. proc(5)"""
    sought = mark.encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if sought in (entry / "environ").read_bytes():
                    yield int(entry.name)
            except OSError:  # the process has ended, or belongs to another user
                continue


def send(pid: int, number: int) -> None:
    """Send a signal to a process, if it still runs."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_group(pid: int) -> None:
    """Kill the process group of *pid*, if there is one."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def exit_code(status: int) -> int:
    """Return the exit code that a shell and Docker give for a status of `subprocess`: 128 + signal."""
    return status if status >= 0 else 128 - status
