"""A job of nodes that come and go, on this machine, from the spec to what it keeps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import process_table
from tests.support.agent.elastic_nodes import accounted, fixed, generations, sgd, went
from tests.support.agent.elastic_sgd import OWN
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow

STEPS = 2000


class Job:
    """A spec that was applied, and its run."""

    def __init__(self, folder: Path, steps: int = STEPS, pace_s: float = 0.05, **more: Any) -> None:
        self.folder, code = folder, folder / "code"
        code.mkdir()
        words = sgd(code, steps, pace_s)
        spec = {
            "apiVersion": "runspec/v1",
            "name": "elastic",
            "provider": "local",
            "cluster": {"nodes": {"min": 1, "max": 3}},
            "outputs": [{"name": "out", "path": "/job/out", "sync": "1s"}, OWN],
            "command": words,
            "retry": {"spot_attempts": 3},
            **more,
        }
        (folder / "job.yaml").write_text(json.dumps(spec))  # JSON is YAML
        line = [sys.executable, "-m", "runspec_jobs", "apply", "job.yaml"]
        self.applying = subprocess.Popen(
            line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def run(self) -> Path:
        return next(Path(os.environ["RUNSPEC_HOME"], "local", "runs").iterdir())

    def state(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.run / "elastic/0/state").read_text())
        except (FileNotFoundError, StopIteration):
            return {}
        return found

    def seats(self) -> list[int]:
        found = self.state()
        running = found.get("phase") == "running"
        return [int(m[0].partition("-")[0]) for m in found["members"]] if running else []

    def steps(self) -> int:
        """Give how many steps the generation that runs has taken, as its first node says."""
        state = self.state()
        path = self.run / "elastic/0/changes" / f"{state.get('generation', 0):07}"
        return int(json.loads(path.read_text())["first_step"] or 0) if path.exists() else 0

    def until(self, true: Callable[[], Any], timeout_s: float = 90) -> None:
        end = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < end and self.applying.poll() is None, self.told()
            time.sleep(0.1)

    def told(self) -> str:
        self.applying.terminate()
        logs = [path.read_text()[-2000:] for path in (self.run / "logs").iterdir()]
        return "\n".join([str(self.state()), *logs])

    def is_whole_without(self, lost: list[Any]) -> bool:
        """Say whether three nodes have taken a step, none of which is the process that was *lost*."""
        return len(self.seats()) == 3 and lost not in self.state()["members"] and self.steps() > 0

    def agent(self, seat: int) -> int:
        """Give the process of a node."""
        supervisor = json.loads((self.run / "started.json").read_text())["pid"]
        mark = f"RUNSPEC_INDEX={seat}".encode()
        around = dict(process_table.environments())
        for pid in process_table.children().get(supervisor, []):
            if mark in around.get(pid, b"").split(b"\0"):
                return pid
        raise AssertionError(f"node {seat} is not there")

    def ask(self, *words: str) -> str:
        line = [sys.executable, "-m", "runspec_jobs", *words]
        done = subprocess.run(line, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


def ends(status: dict[str, Any]) -> list[float]:
    """Give when the attempts of all nodes ended."""
    return [one["ended_s"] for node in status["nodes"] for one in node["attempts"]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def job(**more: Any) -> Job:
        made.append(Job(tmp_path, **more))
        return made[-1]

    yield job
    for one in made:
        one.applying.kill()
        one.applying.communicate()
        line = [sys.executable, "-m", "runspec_jobs", "destroy", "elastic"]
        subprocess.run(line, capture_output=True, cwd=tmp_path)


def test_nodes_that_are_lost_come_back_and_the_job_ends_as_if_nothing_had_been(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    """Two are killed, one of them the first; then one is told to go. Each comes back by itself."""
    own_profile().write_text("prices: {local: 3600}\n")  # a USD for each second
    job, began_s = start(), time.time()
    job.until(lambda: sorted(job.seats()) == [0, 1, 2] and job.steps())
    lost_in = []
    for number in (signal.SIGKILL, signal.SIGTERM):
        lost = job.state()["members"][0]
        lost_in.append(job.state()["generation"])
        os.kill(job.agent(job.seats()[0]), number)
        job.until(partial(job.is_whole_without, lost))
    (tmp_path / "code/pace").write_text("0")

    said, _ = job.applying.communicate(timeout=90)

    assert job.applying.returncode == 0, said
    ended_s = time.time()
    job.ask("fetch", "elastic", "here")
    found = json.loads((tmp_path / "here/out/state.json").read_text())
    alone = fixed(tmp_path, sgd(tmp_path / "code", STEPS, 0), {})
    assert found["losses"] == pytest.approx(alone["losses"], abs=1e-4)
    assert found["samples"] == alone["samples"]
    status = json.loads(job.ask("status", "elastic", "--json"))
    tries = [[a["exit_code"] for a in node["attempts"]] for node in status["nodes"]]
    assert sorted(tries) == [[0], [137, 0], [143, 0]]
    cost = status["cost"]
    assert [(part["outcome"], part["attempts"]) for part in cost["parts"]] == [
        ("succeeded", 3),
        ("failed", 2),
    ]
    assert cost == json.loads(job.ask("cost", "--json"))["total"]
    # Nodes are replaced at once, and all end together; the command line starts and ends in the rest.
    node_s = 3 * max(end - status["began"] for end in ends(status))
    assert node_s - 3 < cost["most_usd"] <= node_s <= 3 * (ended_s - began_s)
    changes = json.loads(job.ask("report", "elastic", "--json"))["changes"]
    assert changes == status["changes"]
    accounted(changes)
    assert [why for _, why in went(changes, "lost")] == ["it was silent"]
    assert [why for _, why in went(changes, "left")] == ["told to end"]
    assert f"generation {len(changes)}," in job.ask("status", "elastic")
    of_own = [generations(tmp_path / "here", seat) for seat in range(3)]
    assert of_own == [sorted({*own, len(changes)}) for own in of_own], "the last one has all three"
    assert all(own[0] <= lost_in[0] for own in of_own), (of_own, lost_in)


def test_a_job_that_is_cancelled_keeps_what_it_had(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start()
    job.until(lambda: len(job.seats()) == 3 and job.steps())

    job.ask("cancel", "elastic")

    job.applying.communicate(timeout=60)
    assert job.applying.returncode != 0
    job.ask("fetch", "elastic", "here")
    assert json.loads((tmp_path / "here/out/state.json").read_text())["losses"]
    assert process_table.marked(f"RUNSPEC_RUN={job.run.name}") == []


def test_a_program_that_fails_ends_the_job_with_its_code(start: Callable[..., Job]) -> None:
    job = start(command=["sh", "-c", "exit 9"], retry={"attempts": 2})

    said, _ = job.applying.communicate(timeout=90)

    assert job.applying.returncode != 0
    status = json.loads(job.ask("status", "elastic", "--json"))
    assert (status["state"], status["exit_code"]) == ("failed", 9), said
