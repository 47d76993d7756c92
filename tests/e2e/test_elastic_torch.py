"""torchrun and PyTorch, really, on nodes that come and go, each with a network of its own."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REAL_CACHE
from tests.e2e.elastic import ROOT, Elastic, Namespaces, descendants
from tests.needs import need, need_root

pytestmark = [pytest.mark.slow, pytest.mark.torch]

TORCH = "2.13.0"
TRAIN = ROOT / "specs" / "elastic" / "train_digits.py"
EPOCHS, BATCH = 16, 60  # 400 steps
SECONDS = 0.002  # for each sample: 0.12 s for a step of one node


@pytest.fixture(scope="module")
def torch() -> Path:
    """The `bin` of an environment with PyTorch, made once.

    pip takes a build for CPUs alone where it is told of one (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL): 190 MB to get. The
    one that everybody has is made for GPUs, and brings gigabytes.
    """
    made = Path(REAL_CACHE) / "runspec-tests" / f"torch-{TORCH}"
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / ".complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(made)], check=True)
            packages = [f"torch=={TORCH}", "numpy==2.4.6"]
            pip = [str(made / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
            subprocess.run([*pip, "install", "-q", *packages], check=True)
            (made / ".complete").touch()
    return made / "bin"


Start = Callable[..., Elastic]


@pytest.fixture
def start(torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Give a job of the example, of so many nodes, which have not been started."""
    monkeypatch.setenv("PATH", f"{torch}:{os.environ['PATH']}")
    made: list[Elastic] = []

    def job(least: int, most: int, epochs: int = EPOCHS) -> Elastic:
        words = ["python", str(TRAIN), "--out", "${outputs.out}", "--epochs", str(epochs)]
        words += ["--seconds", str(SECONDS), "--timeout", "60", "--save-every", "10"]
        more = {"launch": "torchrun", "global_batch": BATCH}
        made.append(Elastic(tmp_path, words, least, most, **more))
        made[-1].env["OMP_NUM_THREADS"] = "1"
        return made[-1]

    yield job
    for one in made:
        one.close()


@pytest.fixture
def networks() -> Iterator[Namespaces]:
    need_root()
    need("ip")
    made = Namespaces(4)
    yield made
    made.close()


def alone(torch: Path, folder: Path, epochs: int = EPOCHS) -> list[float]:
    """Give the losses of one process that was never disturbed."""
    out = folder / "alone"
    out.mkdir()
    words = ["--nproc-per-node=1", "--standalone", str(TRAIN), "--out", str(out)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "RUNSPEC_GLOBAL_BATCH": str(BATCH)}
    line = [str(torch / "torchrun"), *words, "--epochs", str(epochs)]
    subprocess.run(line, check=True, env=env, capture_output=True)
    found: list[float] = json.loads((out / "losses.json").read_text())
    return found


@pytest.mark.root
def test_a_network_learns_the_same_whatever_happens_to_its_nodes(
    start: Start, networks: Namespaces, torch: Path, tmp_path: Path
) -> None:
    """Added, killed, the first one killed, cut off in silence, told to go, added again, all killed and one back."""
    job = start(1, 4)
    job.at, job.host = networks.at, networks.host
    job.start(0)
    job.run_with(0)
    job.start(1, 2)
    job.run_with(0, 1, 2)
    job.kill(2)  # not the first
    job.run_with(0, 1)
    job.start(3)
    job.run_with(0, 1, 3)
    job.kill(0)  # the first
    job.run_with(1, 3)
    job.freeze(3)  # nothing ends, no packet comes, no connection is reset
    networks.cut(3)
    job.run_with(1)
    job.kill(3)
    job.start(2)
    job.run_with(1, 2)
    job.tell(1, signal.SIGTERM)
    assert job.ended(1) == 143
    job.run_with(2)
    job.kill(2)
    networks.join(3)
    job.start(3)
    job.run_with(3)
    job.start(0)
    job.run_with(3, 0)

    codes = [job.ended(3), job.ended(0)]

    assert codes == [0, 0]
    losses = json.loads((job.kept() / "losses.json").read_text())
    assert losses == pytest.approx(alone(torch, tmp_path), abs=1e-4)
    changes = job.changes()
    assert [c["nodes"] for c in changes] == [1, 3, 2, 3, 2, 1, 2, 1, 1, 2]
    lost = [c["lost_steps"] for c in changes]
    assert [lost[i] for i in (1, 2, 3, 5, 6, 7, 9)] == [
        0
    ] * 7  # where the first one stays, or is told
    assert all(count <= 11 for count in lost[1:])  # it saves every 10 steps


DRIVER = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from runspec_inside import process
from runspec_inside.elastic.engine import Torchrun, Turn, torchrun_words

host, folder = sys.argv[2:4]
words = torchrun_words("r", {"min": 1, "max": 3}, 1, host) + sys.argv[4:]
engine = Torchrun(words, None, 5.0, folder, 1)
process.adopt_orphans()
for line in sys.stdin:
    turn = json.loads(line)
    if turn:
        env = {**os.environ, "RUNSPEC_HOST": host, "RUNSPEC_GENERATION": str(turn[0])}
        engine.start(Turn(*turn), env)
    else:
        engine.stop()
        while engine.look() is None:
            time.sleep(0.05)
        print("stopped", flush=True)
engine.kill()
"""
WORKER = """
import datetime, os, sys, time, torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
found = torch.ones(1)
dist.all_reduce(found)
name = os.environ["RUNSPEC_GENERATION"] + "-" + os.environ["RANK"]
with open(os.path.join(sys.argv[1], name), "w") as file:
    file.write(str(int(found)))
time.sleep(600)
"""


class Agent:
    """One torchrun, and what our agent would say to it."""

    def __init__(self, folder: Path, number: int) -> None:
        self.host = f"127.0.0.{number + 1}"
        own = folder / f"agent-{number}"
        own.mkdir()
        program = ["python", str(folder / "worker.py"), str(folder)]
        line = [sys.executable, "-c", DRIVER, str(ROOT / "runner"), self.host, str(own), *program]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(line, env=env, stdin=pipe, stdout=pipe, text=True)

    def say(self, turn: Sequence[Any]) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(turn) + "\n")
        self.child.stdin.flush()

    def stopped(self) -> bool:
        assert self.child.stdout is not None
        return self.child.stdout.readline() == "stopped\n"

    def kill(self) -> None:
        for pid in [*descendants(self.child.pid), self.child.pid]:
            os.kill(pid, signal.SIGKILL)
        self.child.communicate()


CHANGES = {
    "one more, and the first stays": ([0], [0, 1]),
    "the first of three is lost": ([0, 1, 2], [1, 2]),
    "a new one becomes the first": ([0, 1], [2, 0, 1]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_workers_meet_anew_after_each_change_of_members(
    torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The three changes of which torch 2.13 hangs or dies with its own rendezvous, as that is by default."""
    monkeypatch.setenv("PATH", f"{torch}:{os.environ['PATH']}")
    (tmp_path / "worker.py").write_text(WORKER)
    before, after = CHANGES[change]
    agents = {number: Agent(tmp_path, number) for number in {*before, *after}}
    try:
        begin(tmp_path, 1, [agents[number] for number in before])
        for number in before:
            if number in after:
                agents[number].say([])
            else:
                agents[number].kill()
        assert all(agents[number].stopped() for number in before if number in after)
        begin(tmp_path, 2, [agents[number] for number in after])
    finally:
        for agent in agents.values():
            if agent.child.poll() is None:
                agent.kill()


def begin(folder: Path, generation: int, agents: Sequence[Agent]) -> None:
    """Have workers begin, and wait until they all have added up how many they are."""
    hosts, port = [agent.host for agent in agents], free_port()
    for rank, agent in enumerate(agents):
        agent.say([generation, rank, hosts, port])
    for rank in range(len(agents)):
        path, end = folder / f"{generation}-{rank}", time.monotonic() + 120
        while not (path.exists() and path.read_text()):
            assert time.monotonic() < end, f"rank {rank} of generation {generation} is not there"
            time.sleep(0.05)
        assert path.read_text() == str(len(agents))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
