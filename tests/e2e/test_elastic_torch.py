"""torchrun and PyTorch, really, on nodes that come and go."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.test_elastic_local import Job
from tests.support.agent.elastic_nodes import WAIT_S, Elastic, Namespaces
from tests.support.process_table import descendants
from tests.support.requirements import lack, need, need_root
from tests.support.root import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "specs" / "elastic"
PINNED = dict(re.findall("(?m)^([a-z]+)==(.+)$", (EXAMPLE / "requirements.txt").read_text()))
# Read before any test has a home of its own.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
MADE = CACHE / "runspec-tests" / f"torch-{PINNED['torch']}"
OTHERS = (ROOT / "tests/support/torch_versions.txt").read_text().split()

SAMPLES, BATCH, EPOCHS = 1500, 60, 24
STEPS = EPOCHS * SAMPLES // BATCH
PACE_S, SAVE_EVERY, SYNC_S = 0.2, 5, 0.5
MOST_LOST = (
    SAVE_EVERY + 5
)  # what it has saved is sent within a second, in which it takes five steps


@pytest.fixture
def torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment with PyTorch, whose commands come first."""
    version = getattr(request, "param", PINNED["torch"])
    made = MADE.with_name(f"torch-{version}")
    if not (made / ".complete").exists():
        lack(
            f"torch {version}, which tools/setup {'--matrix' if version in OTHERS else '--test'} installs"
        )
    monkeypatch.setenv("PATH", f"{made / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return made


# It stands in the place of batches.py, which is `dealt` then.
TRACED = '''
import json, os, time
import dealt

HERE = os.path.dirname(os.path.abspath(__file__))


class Batches(dealt.Batches):
    """Writes down who takes which samples, and when; and takes its time, as with a large network."""

    def of(self, step, rank, world):
        mine = super().of(step, rank, world)
        name = "trace-{}-{}".format(os.environ.get("RUNSPEC_GENERATION", "0"), rank)
        with open(os.path.join(HERE, name), "a") as file:
            file.write(json.dumps([step, time.time(), mine]) + "\\n")
        with open(os.path.join(HERE, "pace")) as file:
            time.sleep(float(file.read()))
        return mine
'''


class Taken(NamedTuple):
    """The samples of one process in one step, and when it began with them."""

    step: int
    at: float
    samples: list[int]


class Traced:
    """The example, and what its processes write down about themselves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "batches.py").rename(folder / "dealt.py")
        (folder / "batches.py").write_text(TRACED)
        self.pace(PACE_S)

    def pace(self, seconds: float) -> None:
        part = self.folder / "pace.part"
        part.write_text(str(seconds))
        part.replace(self.folder / "pace")

    def words(self, out: str) -> list[str]:
        program = [str(self.folder / "train_digits.py"), "--out", out]
        return ["python", *program, "--epochs", str(EPOCHS), "--save-every", str(SAVE_EVERY)]

    def of(self, generation: int) -> list[list[Taken]]:
        """Give what each process of a generation has begun, in the order of ranks."""
        paths = sorted(self.folder.glob(f"trace-{generation}-*"))
        return [
            [Taken(*json.loads(line)) for line in path.read_text().splitlines()] for path in paths
        ]

    def generations(self) -> list[int]:
        """Give those that have begun a step, in order."""
        return sorted({int(path.name.split("-")[1]) for path in self.folder.glob("trace-*")})

    def first(self, generation: int) -> Taken:
        """Give what a generation began with: all its processes with the same step."""
        found = [rank[0] for rank in self.of(generation)]
        assert len({one.step for one in found}) == 1
        return min(found, key=lambda one: one.at)

    def last(self, generation: int) -> Taken:
        """Give what was begun last; whether that step was done, nothing here tells."""
        return max((rank[-1] for rank in self.of(generation)), key=lambda one: one.step)

    def counted(self) -> list[list[int]]:
        """Give the samples of each epoch, from the steps that count: those that no later generation did again."""
        epochs: list[list[int]] = [[] for _ in range(EPOCHS)]
        until = STEPS
        for generation in reversed(self.generations()):
            first = self.first(generation).step
            for rank in self.of(generation):
                for one in rank:
                    if first <= one.step < until:
                        epochs[one.step * BATCH // SAMPLES] += one.samples
            until = min(until, first)
        return epochs


def alone(torch: Path, folder: Path, epochs: int) -> subprocess.Popen[bytes]:
    """Begin to train with one process that nothing disturbs."""
    (folder / "alone").mkdir()
    words = [str(torch / "bin/python"), str(EXAMPLE / "train_digits.py")]
    own = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "RUNSPEC_GLOBAL_BATCH": str(BATCH)}
    env = {**os.environ, **own, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    return subprocess.Popen(
        [*words, "--out", "alone", "--epochs", str(epochs)], env=env, cwd=folder
    )


def losses(folder: Path) -> list[float]:
    found: list[float] = json.loads((folder / "losses.json").read_text())
    return found


@pytest.fixture
def networks() -> Iterator[Namespaces]:
    need_root()
    need("ip")
    made = Namespaces(4)
    yield made
    made.close()


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    return Traced(tmp_path / "code")


@pytest.fixture
def job(torch: Path, traced: Traced, networks: Namespaces, tmp_path: Path) -> Iterator[Elastic]:
    """A job of one to four nodes, none of which has been started."""
    outputs = [{"name": "out", "path": "/out", "sync_s": SYNC_S}]
    more = {"launch": "torchrun", "global_batch": BATCH, "outputs": outputs}
    made = Elastic(tmp_path, traced.words("${outputs.out}"), 1, 4, **more)
    made.at, made.host = networks.at, networks.host
    made.env |= {"OMP_NUM_THREADS": "1", "RUNSPEC_BEAT_S": "2"}
    yield made
    made.close()


@pytest.mark.root
@pytest.mark.matrix  # two and a half minutes of processor time; test_elastic.py compares losses without torch
def test_a_network_learns_the_same_whatever_happens_to_its_nodes(
    job: Elastic, traced: Traced, networks: Namespaces, torch: Path, tmp_path: Path
) -> None:
    """Added, killed, the first one killed, cut off in silence, told to go, added again, all killed and one back."""
    fixed = alone(torch, tmp_path, EPOCHS)
    job.start(0)
    job.run_with(0)
    job.start(1, 2)
    job.run_with(0, 1, 2)
    job.kill(2)  # not the first
    job.run_with(0, 1)
    _save_and_go_on(job, traced)
    job.kill(0)  # the first
    job.run_with(1)
    job.start(2, 3)
    job.run_with(1, 2, 3)
    networks.cut(3, job.agent(3), job.folder / "store")  # it lives, and reaches nobody
    job.run_with(1, 2)
    job.until(lambda: not _workers(job, 3), "the one that was cut off has stopped by itself")
    job.tell(1, signal.SIGTERM)
    assert job.ended(1) == 143
    job.run_with(2)
    networks.join(3, job.agent(3), job.folder / "store")
    job.run_with(2, 3)
    _save_and_go_on(job, traced)
    job.kill(2)
    job.kill(3)
    job.start(0)
    job.run_with(0)
    traced.pace(0)

    assert job.ended(0) == 0

    assert fixed.wait() == 0
    assert losses(job.kept()) == pytest.approx(losses(tmp_path / "alone"), abs=1e-4)
    assert len(losses(job.kept())) == STEPS
    assert [sorted(epoch) for epoch in traced.counted()] == [list(range(SAMPLES))] * EPOCHS
    _compare(job.changes(), traced)


# Of each generation: its nodes, why it began, and how many steps may have been done again.
EXPECTED = [
    ("1", "", 0),
    ("1 2 3", "joined", 0),
    ("1 2", "10.77.1.3 is lost", 0),  # the first one saves when it misses another
    ("2", "10.77.1.1 is lost", MOST_LOST),
    ("2 3 4", "joined", 0),
    ("2 3", "10.77.1.4 is lost", 0),
    ("3", "10.77.1.2 is leaving", 0),
    ("3 4", "10.77.1.4 joined", 0),
    ("1", "is lost", MOST_LOST),
]


EXTRA = 6  # generations more: on a busy machine a node may miss its own lease, stop and begin again


def _compare(changes: list[dict[str, Any]], traced: Traced) -> None:
    """Hold the record of changes against what the processes have written down."""
    assert [c["generation"] for c in changes] == list(range(1, len(changes) + 1))
    assert len(changes) <= len(EXPECTED) + EXTRA
    expected, reasons, before = iter(EXPECTED), [], 0
    hosts: list[str] = []
    most = 0
    for change in changes:
        reasons.append(change["why"])
        if change["first_step"] is None:  # the next one has its seconds
            continue
        generation, calm = change["generation"], len(reasons) == 1
        if change["hosts"] == hosts:
            calm = False
        else:
            nodes, why, most = next(expected)
            assert [host.rpartition(".")[2] for host in change["hosts"]] == nodes.split()
            assert any(why in reason for reason in reasons)
        if before:
            _compare_cost(change, traced, before, most if calm else MOST_LOST)
        hosts, reasons, before = change["hosts"], [], generation
    assert next(expected, None) is None


def _compare_cost(change: dict[str, Any], traced: Traced, before: int, most: int) -> None:
    """Hold what a change has cost against the steps of generation *before* and of its own."""
    first, last = traced.first(change["generation"]), traced.last(before)
    waited_s = first.at - last.at
    assert change["first_step"] == first.step + 1
    assert 0 <= change["lost_steps"] <= most, change
    assert last.step - first.step <= most, change
    if change["exact"]:
        assert change["lost_steps"] in (last.step - first.step, last.step + 1 - first.step), change
        assert change["gap_s"] == pytest.approx(waited_s, abs=3)
    else:  # nobody is left who knew; what was noted is some seconds old
        assert change["hosts"] == ["10.77.1.1"]
        assert waited_s - 3 < change["gap_s"] < waited_s + 30


def _save_and_go_on(job: Elastic, traced: Traced) -> None:
    """Wait until a checkpoint is some steps old."""
    enough = traced.last(traced.generations()[-1]).step + SAVE_EVERY + 3
    job.until(lambda: traced.last(traced.generations()[-1]).step >= enough, "it saves")


def _workers(job: Elastic, seat: int) -> list[int]:
    found = []
    for pid in descendants(job.nodes[seat].pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if Path(f"/proc/{pid}/comm").read_text() == "runspec-warm\n":
                continue  # that workers are forked from
        except OSError:
            continue
        if words[0] == b"python" and words[1].endswith(b"train_digits.py"):
            found.append(pid)
    return found


DRIVER = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from runspec_agent.base import process
from runspec_agent.elastic.runtime import Torchrun, Turn, torchrun_words

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
    file.write("{} {}".format(int(found), os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"]))
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
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True)

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


# The three changes of which torch 2.13 hangs or dies with its own rendezvous, as that is by default.
TURNS = {
    "one alone": [0],
    "one more, and the first stays": [0, 1],
    "a new one becomes the first": [2, 0, 1],
    "the first of three is lost": [0, 1],
}


@pytest.mark.parametrize(
    "torch",
    [PINNED["torch"], *(pytest.param(version, marks=pytest.mark.matrix) for version in OTHERS)],
    indirect=True,
)
def test_workers_meet_anew_after_each_change_of_members(torch: Path, tmp_path: Path) -> None:
    """Also with the oldest PyTorch that has entry points for a rendezvous, and the newest that was tried."""
    (tmp_path / "worker.py").write_text(WORKER)
    agents: dict[int, Agent] = {}
    before: list[int] = []
    try:
        for generation, (change, after) in enumerate(TURNS.items(), 1):
            for number in {*before} - {*after}:
                agents.pop(number).kill()
            for number in before:
                if number in after:
                    agents[number].say([])
            assert all(agents[number].stopped() for number in before if number in after), change
            for number in {*after} - {*before}:
                agents[number] = Agent(tmp_path, number)
            _begin(tmp_path, generation, [agents[number] for number in after], change)
            before = after
    finally:
        for agent in agents.values():
            agent.kill()


def _begin(folder: Path, generation: int, agents: Sequence[Agent], change: str) -> None:
    """Have workers begin, and wait until they all have added up how many they are."""
    hosts, port = [agent.host for agent in agents], _free_port()
    for rank, agent in enumerate(agents):
        agent.say([generation, rank, hosts, port])
    for rank in range(len(agents)):
        path, end = folder / f"{generation}-{rank}", time.monotonic() + WAIT_S
        while not (path.exists() and path.read_text()):
            assert time.monotonic() < end, f"{change}: rank {rank} is not there"
            time.sleep(0.05)
        assert path.read_text() == f"{len(agents)} 1"  # and the variable that torch 2.13 needs


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


class Digits(Job):
    """The example, applied as it is."""

    SPEC = str(ROOT / "specs/elastic-digits.yaml")

    def __init__(self, folder: Path, torch: Path) -> None:
        self.folder = folder
        steps = json.loads(self.ask("plan", self.SPEC, "--json"))["steps"]
        (path,) = [step["do"]["params"]["path"] for step in steps if step["id"] == "environment"]
        _adopt(torch, Path(path))
        line = [sys.executable, "-m", "runspec_jobs", "apply", self.SPEC]
        self.applying = subprocess.Popen(
            line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


def _adopt(torch: Path, path: Path) -> None:
    """Have runspec find the environment built: uv reads no setting of pip, and would get the build for GPUs."""
    path.mkdir(parents=True)
    for name in ("bin", "lib", "pyvenv.cfg"):
        (path / name).symlink_to(torch / name)
    (path / ".complete").write_text(path.name)


@pytest.fixture
def digits(torch: Path, tmp_path: Path) -> Iterator[Digits]:
    made = Digits(tmp_path, torch)
    yield made
    made.applying.kill()
    made.applying.communicate()
    line = [sys.executable, "-m", "runspec_jobs", "destroy", "elastic-digits"]
    subprocess.run(line, capture_output=True, cwd=tmp_path)


@pytest.mark.matrix
def test_the_example_runs_as_it_is_and_learns_the_same_as_one_process(
    digits: Digits, torch: Path, tmp_path: Path
) -> None:
    said, _ = digits.applying.communicate(timeout=WAIT_S)

    assert digits.applying.returncode == 0, said
    digits.ask("fetch", "elastic-digits", "here")
    assert alone(torch, tmp_path, 20).wait() == 0
    assert losses(tmp_path / "here/model") == pytest.approx(losses(tmp_path / "alone"), abs=1e-4)
    status = json.loads(digits.ask("status", "elastic-digits", "--json"))
    assert [[a["exit_code"] for a in node["attempts"]] for node in status["nodes"]] == [[0]] * 4
    assert status["changes"][-1]["nodes"] == 4
