"""Nodes of an elastic job, one process each, which a test starts and takes away as it likes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from runspec_jobs.provider.payload import pack_agent
from tests.support.agent.elastic_sgd import PROGRAM
from tests.support.process_table import descendants
from tests.support.root import ROOT

RUN = f"r-{os.getpid():06}"
RECORD: dict[str, Any] = {
    "run": RUN,
    "shape": "array",
    "launch": "none",
    "slots": 1,
    "attempts": 1,
    "sweep": [],
    "mounts": [],
    "outputs": [{"name": "out", "path": "/out", "sync_s": 0.5}],
    "requirements": [],
    "build_constraints": [],
}
# Steps that a machine may take with it: it saves every 20, of 0.05 s each, of which a sync begins every second.
INTERVAL = 20 + 2 * 20
WAIT_S = 300.0  # a machine may be busy: importing torch alone takes seconds of its time


class Elastic:
    """A run of *least* to *most* nodes in *folder*, which is the store as well."""

    def __init__(
        self, folder: Path, argv: Sequence[str], least: int, most: int, **more: Any
    ) -> None:
        self.folder, self.most = folder, most
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.tries: dict[int, int] = {}
        self.env: dict[str, str] = {"RUNSPEC_BEAT_S": "1", "RUNSPEC_GRACE_S": "10"}
        self.at: Callable[[int], list[str]] = lambda seat: []  # what begins a node's command
        self.host: Callable[[int], str] = lambda seat: f"127.0.0.{seat + 1}"
        (folder / "inside.pyz").write_bytes(pack_agent())
        bounds = {"min": least, "max": most}
        record = {**RECORD, "nodes": most, "elastic": bounds, "argv": list(argv), **more}
        self.run = folder / "store" / "runs" / RUN
        self.run.mkdir(parents=True)
        (self.run / "record.json").write_text(json.dumps(record))

    def start(self, *seats: int) -> None:
        for seat in seats:
            self.tries[seat] = self.tries.get(seat, 0) + 1
            below = self.folder / f"node-{seat}-{self.tries[seat]}"  # a new machine each time
            below.mkdir()
            own = {
                "RUNSPEC_RUN": RUN,
                "RUNSPEC_JOB": "j",
                "RUNSPEC_STORE": f"file://{self.folder / 'store'}",
                "RUNSPEC_INDEX": str(seat),
                "RUNSPEC_ATTEMPT": str(self.tries[seat]),
                "RUNSPEC_HOST": self.host(seat),
                "RUNSPEC_BELOW": str(below),
                "TMPDIR": str(below),
            }
            with (below / "log").open("wb") as log:
                self.nodes[seat] = subprocess.Popen(
                    [*self.at(seat), sys.executable, "-IS", str(self.folder / "inside.pyz"), "job"],
                    env={"PATH": os.environ["PATH"], **self.env, **own},
                    cwd=below,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def said(self, seat: int) -> str:
        return (self.folder / f"node-{seat}-{self.tries[seat]}" / "log").read_text()

    def state(self) -> dict[str, Any]:
        """Give what the leader has written last."""
        path = self.run / "elastic" / "0" / "state"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def seats(self) -> list[int]:
        """Give the members of the generation that runs, in the order of ranks; none while one forms."""
        found = self.state()
        if found.get("phase") != "running":
            return []
        return [int(member[0].partition("-")[0]) for member in found["members"]]

    def changes(self) -> list[dict[str, Any]]:
        folder = self.run / "elastic" / "0" / "changes"
        return [json.loads(path.read_text()) for path in sorted(folder.glob("[0-9]*"))]

    def kept(self) -> Path:
        return self.run / "outputs" / "out" / "0" / "0"

    def until(self, true: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        end = time.monotonic() + timeout_s
        while not true():
            logs = "\n".join(f"--- {seat}\n{self.said(seat)[-3000:]}" for seat in self.nodes)
            gone = [seat for seat, child in self.nodes.items() if child.poll() is not None]
            assert not gone and time.monotonic() < end, f"never: {what}\n{self.state()}\n{logs}"
            time.sleep(0.1)

    def run_with(self, *seats: int) -> None:
        """Wait until these nodes run, and have taken some steps."""
        wanted = sorted(seats)
        self.until(lambda: sorted(self.seats()) == wanted and self.steps(), f"{seats} take a step")

    def steps(self) -> bool:
        """Say whether the generation that there is now has taken a step."""
        now = self.state()["generation"]
        return any(c["generation"] == now and c.get("first_step") for c in self.changes())

    def kill(self, seat: int) -> None:
        """Take the machine away with all that is on it."""
        child = self.nodes.pop(seat)
        for pid in [*descendants(child.pid), child.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.wait()

    def tell(self, seat: int, number: int) -> None:
        os.kill(self.agent(seat), number)

    def agent(self, seat: int) -> int:
        """Give the process of the agent, whatever it was started by."""
        pid = self.nodes[seat].pid
        return descendants(pid)[0] if self.at(seat) else pid

    def freeze(self, seat: int, number: int = signal.SIGSTOP) -> None:
        child = self.nodes[seat]
        for pid in [child.pid, *descendants(child.pid)]:
            os.kill(pid, number)

    def ended(self, seat: int, timeout_s: float = WAIT_S) -> int:
        return self.nodes.pop(seat).wait(timeout_s)

    def close(self) -> None:
        for seat in list(self.nodes):
            self.kill(seat)


def sgd(folder: Path, steps: int, pace_s: float) -> list[str]:
    """Give the words of the training in elastic_sgd; what `pace` says is slept after each step."""
    shutil.copy(ROOT / "specs" / "elastic" / "batches.py", folder)
    (folder / "sgd.py").write_text(PROGRAM)
    (folder / "pace").write_text(str(pace_s))
    return [sys.executable, str(folder / "sgd.py"), str(steps), str(folder / "pace")]


def generations(fetched: Path, seat: int) -> list[int]:
    """Give the generations that a node was part of, on all its machines, by what is kept of it alone."""
    path = fetched / f"node-{seat}" / "own" / "generations"
    return [int(line) for line in path.read_text().split()]


def fixed(folder: Path, argv: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Give what the training keeps when one process runs it from end to end."""
    out = folder / "fixed"
    out.mkdir()
    own = {
        "RUNSPEC_OUTPUT_OUT": str(out),
        "RUNSPEC_PROGRESS": str(folder / "fixed-progress"),
        "RUNSPEC_GENERATION": "1",
        "RUNSPEC_RANK": "0",
        "RUNSPEC_WORLD_SIZE": "1",
        "RUNSPEC_LEADER": "127.0.0.1",
        "RUNSPEC_PORT": "0",
    }
    subprocess.run(argv, check=True, env={**os.environ, **env, **own}, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads((out / "state.json").read_text())
    return found


def stepped(changes: Sequence[Mapping[str, Any]], generation: int) -> bool:
    """Say whether *generation* has done a step, by what a status tells of the changes so far."""
    last = changes[-1] if changes else {}
    return last.get("generation") == generation and last["first_step"] is not None


def accounted(changes: Sequence[Mapping[str, Any]], interval: int = INTERVAL) -> None:
    """Hold a report's changes against each other: all are there, nobody comes or goes untold, and each has its cost.

    Where all that went had said so, nothing is lost; else no more than *interval* steps. A generation whose first node
    left before its program began has no change: nobody can tell then who had come.
    """
    numbers = [one["generation"] for one in changes]
    assert numbers[0] == 1 and numbers == sorted({*numbers})
    assert changes[0]["before"] == 0 and len(changes[0]["came"]) == changes[0]["nodes"]
    for before, one in pairwise(changes):
        went = len(one["left"]) + len(one["lost"])
        if one["generation"] == before["generation"] + 1:
            assert one["before"] == before["nodes"]
        assert one["nodes"] == one["before"] + len(one["came"]) - went
        if one["first_step"] is None:  # the next change came too soon, and has its seconds
            assert one["gap_s"] is None and one is not changes[-1]
            continue
        assert one["exact"] or len(one["lost"]) == one["before"]  # somebody is left who knows
        assert 0 < one["gap_s"] < one["at"], one
        assert 0 <= one["lost_steps"] <= (interval if one["lost"] else 0), one


def went(changes: Sequence[Mapping[str, Any]], how: str) -> list[tuple[int, str]]:
    """Give number and reason of each node that `left` or was `lost`, in order."""
    return [(who["node"], who["why"]) for one in changes for who in one[how]]


class Namespaces:
    """Machines as far as a network goes: each node has an address on a bridge, and nobody else reaches them. Root only.

    What holds a namespace is a process, and a node's own processes have numbers of their own, so that they end with the
    first of them. namespaces(7), veth(4)
    """

    def __init__(self, count: int) -> None:
        self.holders = [self._hold() for _ in range(count + 1)]
        lines = ["link add br0 type bridge", "link set br0 up", "link set lo up"]
        for seat, holder in enumerate(self.holders[1:]):
            peer = f"peer name eth0 netns {holder.pid}"
            lines += [f"link add n{seat} type veth {peer}", f"link set n{seat} master br0 up"]
        self._tell(0, lines)
        for seat in range(count):
            own = [f"addr add {self.host(seat)}/24 dev eth0", "link set eth0 up", "link set lo up"]
            self._tell(seat + 1, own)

    def host(self, seat: int) -> str:
        return f"10.77.1.{seat + 1}"

    def at(self, seat: int) -> list[str]:
        """Give what begins a command on a node."""
        inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return [*self._in(seat + 1), *inside]

    def cut(self, seat: int, agent: int, store: Path) -> None:
        """Take a node away from all others: no packet comes, no connection is reset, and its *store* is gone."""
        self._tell(0, [f"link set n{seat} down"])
        self._of(agent, ["mount", "-t", "tmpfs", "-o", "ro", "none", str(store)])

    def join(self, seat: int, agent: int, store: Path) -> None:
        self._of(agent, ["umount", str(store)])
        self._tell(0, [f"link set n{seat} up"])

    def _of(self, agent: int, argv: Sequence[str]) -> None:
        """Run a command where files are as *agent* sees them."""
        subprocess.run(["nsenter", f"--target={agent}", "--mount", "--", *argv], check=True)

    def close(self) -> None:
        for holder in self.holders:
            holder.kill()
            holder.wait()

    def _hold(self) -> subprocess.Popen[bytes]:
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        own = Path("/proc/self/ns/net").readlink()
        end = time.monotonic() + WAIT_S
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
            assert time.monotonic() < end, "no namespace"
            time.sleep(0.02)
        return holder

    def _in(self, number: int) -> list[str]:
        return ["nsenter", f"--target={self.holders[number].pid}", "--net", "--"]

    def _tell(self, number: int, lines: Sequence[str]) -> None:
        done = subprocess.run(
            [*self._in(number), "ip", "-batch", "-"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
