"""The parent of every process of a cluster: a program with one thread, which ends them all when it ends.

It reads orders from stdin, a JSON object per line, and answers each with a line. At the end of stdin,
so also when whoever started it is killed, it ends everything that descends from it. Daemons that
leave their parent become its children (PR_SET_CHILD_SUBREAPER, prctl(2)): those of slurmd, and what
slurmctld starts. Where it is killed itself, the daemons that it started end with it; not their jobs.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
REAP_S = 0.5  # how long a process that has ended waits to be reaped
PAUSE_S = 0.01
libc: Any = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Keep until stdin ends, then remove the folder that is argv[1]."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A terminal sends these to the whole process group, but this process ends when stdin does.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    keeper = Keeper()
    try:
        keeper.serve()
    finally:
        kill_all(lambda: descendants(os.getpid()), keeper.reap)
        shutil.rmtree(sys.argv[1], ignore_errors=True)


class Keeper:
    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.orders: dict[str, Callable[..., Any]] = {
            "start": self.start,
            "send": self.send,
            "look": self.look,
            "kill": self.kill,
        }

    def serve(self) -> None:
        """Carry out the orders on stdin until it ends, and reap children."""
        os.set_blocking(0, False)
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            while True:
                if selector.select(REAP_S):
                    data = os.read(0, 1 << 16)
                    if not data:
                        return
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        self.answer(json.loads(line))
                self.reap()

    def answer(self, order: dict[str, Any]) -> None:
        self.reap()
        what = self.orders[order.pop("order")]
        try:
            said = {"answer": what(**order)}
        except (OSError, KeyError) as exc:
            said = {"error": f"{type(exc).__name__}: {exc}"}
        os.write(1, json.dumps(said).encode() + b"\n")

    def start(self, name: str, argv: list[str], env: dict[str, str], log: str) -> int:
        """Start *argv* under *name*; its output is appended to *log*."""
        with Path(log).open("ab") as out:
            process = subprocess.Popen(  # `reap` waits for it
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509 - one thread
            )
        self.pids[name] = process.pid
        self.codes.pop(name, None)
        process.returncode = 0  # so that the destructor of Popen does not wait for it as well
        return process.pid

    def send(self, name: str, number: int) -> None:
        """Send a signal to the process *name*; do nothing if it has ended."""
        if name not in self.codes:
            os.kill(self.pids[name], number)

    def look(self) -> dict[str, int | None]:
        """Return the exit code of each process by name: -N for signal N, None while it runs."""
        return {name: self.codes.get(name) for name in self.pids}

    def kill(self, mark: str) -> None:
        """Kill every descendant with *mark*, "NAME=VALUE", in its environment, and each slurmstepd above one.

        The environment of slurmstepd is empty in 24.11 and 26.05. If it outlived its job, it would report its end.
        """
        kill_all(lambda: [pid for pid in descendants(os.getpid()) if belongs(pid, mark)], self.reap)

    def reap(self) -> None:
        names = {pid: name for name, pid in self.pids.items() if name not in self.codes}
        for pid, status in ended():
            if pid in names:
                self.codes[names[pid]] = os.waitstatus_to_exitcode(status)


def prepare() -> None:
    """Make a process end with the keeper, and hear every signal. Called after fork."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # A terminal sends these to the whole process group, but this process ends when stdin does.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def ended() -> Iterator[tuple[int, int]]:
    """Yield the process id and status of each child that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def kill_all(which: Callable[[], list[int]], reap: Callable[[], None]) -> None:
    """Kill *which* until there are none."""
    while pids := which():
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(PAUSE_S)
        reap()


def belongs(pid: int, mark: str) -> bool:
    above = is_step(pid) and any(marked(child, mark) for child in descendants(pid))
    return above or marked(pid, mark)


def is_step(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "slurmstepd\n"
    except OSError:
        return False


def marked(pid: int, mark: str) -> bool:
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def descendants(root: int) -> list[int]:
    """Return the descendants of the process *root*, parents first; field 4 of /proc/PID/stat. proc(5)"""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(
                int(entry.name)
            )
    pids = list(children.get(root, []))
    for pid in pids:  # the loop appends to the list
        pids += children.get(pid, [])
    return pids


if __name__ == "__main__":
    main()
