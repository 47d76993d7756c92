"""The processes of a cluster, by way of the keeper: see there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_emulators.frame.listening import Closing

LOOK_S = 0.02
MARK = "SLURMD_NODENAME"  # a variable that Slurm sets for jobs; here slurmd has it as well, to be recognized


class Failed(RuntimeError):
    """A cluster did not carry out an order; the message contains its log."""


class Daemons(Closing):
    """Starts programs that end with this object, or with this process; *logs* is where they write.

    *removed* is a folder that goes away with them.
    """

    def __init__(self, logs: Path, removed: Path) -> None:
        self.logs = logs
        self._keeper = subprocess.Popen(
            [sys.executable, "-IS", str(Path(__file__).with_name("keeper.py")), str(removed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: we end it
        )

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Start *argv*, known as *name* from now on; give its number."""
        pid: int = self._order(
            "start",
            name=name,
            argv=list(argv),
            env=dict(env),
            log=str(self.logs / f"{name}.out"),
        )
        return pid

    def send(self, name: str, number: int) -> None:
        """Send a signal to the process *name*; do nothing if it has ended."""
        self._order("send", name=name, number=number)

    def stop(self, name: str, number: int = signal.SIGTERM, timeout_s: float = 30) -> None:
        """Signal it, and wait for its end."""
        self.send(name, number)
        end = time.monotonic() + timeout_s
        while self.codes()[name] is None:
            if time.monotonic() > end:
                raise Failed(f"{name} does not end: {tail(self.logs / f'{name}.log')}")
            time.sleep(LOOK_S)

    def kill_node(self, node: str) -> None:
        """Kill what runs on *node*, with every process of every job, as a loss of power would."""
        self._order("kill", mark=f"{MARK}={node}")

    def codes(self) -> Mapping[str, int | None]:
        """Return the exit code of each daemon: -N for signal N, None while it runs."""
        codes: Mapping[str, int | None] = self._order("look")
        return codes

    def check(self) -> None:
        """Raise Failed where one has ended by itself."""
        for name, code in self.codes().items():
            if code not in (None, 0, -signal.SIGKILL):
                said = tail(self.logs / f"{name}.out") or tail(self.logs / f"{name}.log")
                raise Failed(f"{name} has ended with {code}: {said}")

    def close(self) -> None:
        keeper = self._keeper
        if keeper.stdin is not None and not keeper.stdin.closed:
            keeper.stdin.close()
            keeper.wait()
        if keeper.stdout is not None:
            keeper.stdout.close()

    def _order(self, order: str, **given: Any) -> Any:
        keeper = self._keeper
        assert keeper.stdin is not None and keeper.stdout is not None, "BUG: it has pipes"
        try:
            keeper.stdin.write(json.dumps({"order": order, **given}).encode() + b"\n")
            keeper.stdin.flush()
            said = json.loads(keeper.stdout.readline())
        except (BrokenPipeError, ValueError) as exc:
            raise Failed("the process that starts the daemons has ended") from exc
        if "error" in said:
            raise Failed(said["error"])
        return said["answer"]


def tail(log: Path, lines: int = 8) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
