"""Nodes as process groups of this machine, each with its own directory, as the local provider makes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from runspec_jobs.provider.payload import pack_agent
from tests.support import process_table
from tests.support.agent.shells import FILE, program

# An mpirun that does what the real ones do, by the remote shell it is told of: one rank a host,
# and the first code that is not 0.
FAKE_MPIRUN = r"""#!/usr/bin/env bash
[ "$1" = --version ] && { echo "mpirun (Open MPI) 5.0.11"; exit; }
RANK='sh "$RUNSPEC_START" & p=$!; trap "kill $p" TERM; wait $p; c=$?;
  while kill -0 $p 2>/dev/null; do wait $p; c=$?; done;
  [ $c != 0 ] || : >"$RUNSPEC_START.ended.$$"; exit $c'
agent=
while [ $# -gt 0 ]; do
  case $1 in
    --hostfile) hosts=$2 ;;
    plm_ssh_agent) agent=${2%:sh} ;;  # the first of a list
    sh) break ;;
  esac
  shift
done
trap 'kill $pids' TERM
pids=
if [ -n "$agent" ]; then
  while read -r host _; do
    "$agent" -x "$host" ${FAKE_COMMAND:-$RANK} & pids="$pids $!"
  done <"$hosts"
else
  "$@" & pids=$!
fi
code=0
for _ in $pids; do
  wait -n; got=$?
  [ "$got" = 0 ] || [ "$code" != 0 ] || { code=$got; kill $pids 2>/dev/null; }
done
exit "$code"
"""


class Nodes:
    """Starts nodes 0 to *count* - 1 and sees to it that nothing of them stays."""

    def __init__(self, folder: Path, count: int, words: Mapping[str, str], path: str) -> None:
        self.folder = folder
        self.count = count
        self.mark = uuid.uuid4().hex
        self.words = {
            "RUNSPEC_RUN": self.mark,
            "RUNSPEC_NODES": str(count),
            "RUNSPEC_LAUNCH": "mpi",
            "RUNSPEC_MEET": str(folder / "meet"),
            "RUNSPEC_INSIDE": str(folder / "inside.pyz"),
            "RUNSPEC_PYTHON": sys.executable,
            "RUNSPEC_LEASE_S": "10",
            "PATH": path,
            **words,
        }
        self.host = "node-{}"
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        (folder / "inside.pyz").write_bytes(pack_agent())

    def home(self, rank: int) -> Path:
        return self.folder / f"node {rank}"

    def said(self, rank: int) -> str:
        """Give what node *rank* has written, both streams."""
        return (self.home(rank) / "log").read_text()

    def start(self, rank: int, argv: Sequence[str]) -> None:
        home = self.home(rank)
        home.mkdir()
        own = {
            "RUNSPEC_RANK": str(rank),
            "RUNSPEC_HOST": self.host.format(rank),
            "RUNSPEC_HOSTFILE": str(home / "hosts"),
            "RUNSPEC_OUTPUT_OUT": str(home / "out"),
        }
        with (home / "log").open("wb") as log:
            self.processes[rank] = subprocess.Popen(
                ["sh", str(FILE), *argv],
                cwd=home,
                env={**self.words, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_all(self, argv: Sequence[str]) -> None:
        for rank in range(self.count):
            self.start(rank, argv)

    def codes(self, timeout_s: float = 120) -> list[int]:
        """Wait for all that were started; give their codes in rank order."""
        until = time.monotonic() + timeout_s
        for child in self.processes.values():
            child.wait(max(0.1, until - time.monotonic()))
        return [self.processes[rank].returncode for rank in sorted(self.processes)]

    def send(self, rank: int, number: int) -> None:
        """Signal the whole group, as a provider does."""
        os.killpg(self.processes[rank].pid, number)

    def until(self, true: Callable[[], bool], timeout_s: float = 120) -> None:
        until = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < until, [self.said(rank) for rank in self.processes]
            time.sleep(0.02)

    def left(self, but: int | None = None) -> list[str]:
        """Give the command lines of what still runs of this job, except on node *but*."""
        there = f"RUNSPEC_RANK={but}\0".encode()
        return [line for _, line, environ in self.marked() if there not in environ]

    def marked(self) -> Iterator[tuple[int, str, bytes]]:
        lines = dict(process_table.words())
        for pid, environ in process_table.environments():
            if self.mark.encode() in environ:  # a zombie has none
                yield pid, os.fsdecode(lines.get(pid, b"").replace(b"\0", b" ")), environ

    def close(self) -> None:
        for pid, _, _ in list(self.marked()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for child in self.processes.values():
            child.wait()
            for stream in (child.stdout, child.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def fake_mpirun(tmp_path: Path) -> str:
    """A PATH with the mpirun of this file first."""
    program(tmp_path / "bin", "mpirun", "").write_text(FAKE_MPIRUN)
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"
