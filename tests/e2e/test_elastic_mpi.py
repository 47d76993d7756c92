"""MPI jobs whose nodes come and go: mpirun starts anew for each generation."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.test_launch import mpi as mpi, one_mpi  # the first is a fixture
from tests.support.agent.elastic_nodes import Elastic, fixed, sgd
from tests.support.root import ROOT

pytestmark = pytest.mark.slow

STEPS = 400
# As elastic_sgd, but MPI adds up. A step that some rank was told to end in is the last one of all.
TRAIN = """
import json, os, signal, sys, time
from mpi4py import MPI
from batches import Batches

told, out, world = [], os.environ["RUNSPEC_OUTPUT_OUT"], MPI.COMM_WORLD
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
assert world.size == int(os.environ["RUNSPEC_WORLD_SIZE"])
path = os.path.join(out, "state.json")
state = {"w": [0.0, 0.0], "losses": [], "samples": []}
if os.path.exists(path):
    with open(path) as file:
        state = json.load(file)

def save():
    if world.rank == 0:
        with open(out.rstrip("/") + ".part", "w") as file:
            json.dump(state, file)
        os.replace(out.rstrip("/") + ".part", path)

batches = Batches(60, 12)
while len(state["losses"]) < int(sys.argv[1]):
    number = len(state["losses"])
    mine, count = batches.of(number, world.rank, world.size), len(batches.whole(number))
    a, b = state["w"]
    own = [0.0, 0.0, 0.0]
    for i in mine:
        x = (i * 7919 % 101) / 101.0
        error = a * x + b - (3.0 * x - 1.0)
        own[0] += error * x / count
        own[1] += error / count
        own[2] += error * error / count
    everybody = world.allgather((own, len(told), mine))
    da, db, loss = [sum(one[0][i] for one in everybody) for i in range(3)]
    state["w"] = [a - 0.5 * da, b - 0.5 * db]
    state["losses"].append(loss)
    state["samples"].append(sorted(i for one in everybody for i in one[2]))
    if world.rank == 0:
        with open(os.environ["RUNSPEC_PROGRESS"], "a") as file:
            file.write("%d\\n" % len(state["losses"]))
    stop = any(one[1] for one in everybody)
    if stop or len(state["losses"]) % 20 == 0:
        save()
    if stop:
        sys.exit(143)
    with open(sys.argv[2]) as file:
        time.sleep(float(file.read() or 0))
save()
"""


@one_mpi
def test_an_mpi_job_goes_on_with_the_nodes_that_there_are(
    mpi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks on each: one node, one more, which is killed, another one, and then the first is told to go."""
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    words = sgd(tmp_path, STEPS, 0.1)
    (tmp_path / "train.py").write_text(TRAIN)
    argv = ["python", str(tmp_path / "train.py"), *words[2:]]
    job = Elastic(tmp_path, argv, 1, 3, launch="mpi", slots=2)
    job.env["PYTHONPATH"] = str(ROOT / "specs" / "elastic")
    try:
        job.start(0)
        job.run_with(0)
        job.start(1)
        job.run_with(0, 1)
        job.kill(1)
        job.run_with(0)
        job.start(2)
        job.run_with(0, 2)
        job.tell(0, signal.SIGTERM)
        assert job.ended(0) == 143
        job.run_with(2)
        (tmp_path / "pace").write_text("0")
        assert job.ended(2) == 0
        found = json.loads((job.kept() / "state.json").read_text())
        alone = fixed(tmp_path, sgd(tmp_path, STEPS, 0), {})
        assert found["losses"] == pytest.approx(alone["losses"], abs=1e-4)
        assert found["samples"] == alone["samples"]
    finally:
        job.close()
