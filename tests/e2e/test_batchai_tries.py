"""Jobs of MPI are tried again at Batch AI, whichever MPI the image has; and what becomes of lost nodes is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_launch import mpi as mpi, one_mpi  # the first is a fixture
from tests.support.azure.emulated_batch_ai import operations, subscription, write

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
WORLD = """
import os, sys
from mpi4py import MPI

world = MPI.COMM_WORLD
names = ("RUNSPEC_ATTEMPT", "GREETING", "TOKEN", "RUNSPEC_SLOTS")
said = world.gather([os.environ[name] for name in names])
# Nodes are folders here: ranks of Open MPI see their own, and MPICH hands on the first one's.
temps = world.gather(os.environ["AZ_BATCHAI_JOB_TEMP"])
here = world.Split_type(MPI.COMM_TYPE_SHARED).size
world.barrier()
if os.environ["RUNSPEC_ATTEMPT"] == "1":
    sys.exit(3)
if world.rank == 0:
    nodes = len(set(temps)) if "OMPI_COMM_WORLD_RANK" in os.environ else world.size // here
    print(world.size, *("/".join(row) for row in said), "on", nodes)
"""


@one_mpi
@pytest.mark.parametrize("slots", [1, 2])
def test_ranks_of_all_nodes_are_one_world_again(
    mpi: Path, slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "world.py").write_text(WORLD)
    monkeypatch.setenv("TOKEN_HERE", "sesame-open")
    with subscription(
        tmp_path, monkeypatch, mpi / "bin", secrets={"token": "env:TOKEN_HERE"}
    ) as stand:
        spec = write(
            cluster={"nodes": 2},
            processes_per_node=slots,
            launch="mpi",
            env={"GREETING": "hello"},
            secrets={"TOKEN": "token"},
            retry={"attempts": 3},
            command=[str(mpi / "bin/python"), str(tmp_path / "world.py")],
        )

        code = run(["apply", spec])

        told = capsys.readouterr()
        assert code == 0, told.err + told.out
        row = f"2/hello/sesame-open/{slots}"
        assert f"{' '.join([str(2 * slots), *[row] * 2 * slots])} on 2\n" in told.out
        run(["status", "job", "--json"])
        (node,) = json.loads(capsys.readouterr().out)["nodes"]
        assert [(a["number"], a["exit_code"]) for a in node["attempts"]] == [(1, 3), (2, 0)]
        assert operations(stand).count("Jobs_Create") == 1
