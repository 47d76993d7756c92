"""Real programs of MPI, on several nodes of a cluster: Open MPI and MPICH."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_launch import littered, mpi as mpi
from tests.emulators.batch_ai.hand import Hand

pytestmark = pytest.mark.slow

HELLO = """
import os
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
temp = os.environ["AZ_BATCHAI_JOB_TEMP"]
near = world.Split_type(MPI.COMM_TYPE_SHARED).size
said = world.gather((world.rank, total, temp, near))
if world.rank == 0:
    print(*said, sep="\\n", flush=True)
"""
FAILS = """
import os, time
from mpi4py import MPI

MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 1:
    os._exit(7)
time.sleep(600)
"""


def prepared(make: Callable[..., Hand], mpi: Path, script: str) -> Hand:
    hand = make(mpirun=(str(mpi / "bin/mpirun"),)).ready(2)
    folder = hand.folder / "storage/account/logs"
    folder.mkdir(parents=True)
    (folder / "script.py").write_text(script)
    return hand


def chainer(mpi: Path) -> dict[str, str]:
    return {
        "pythonScriptFilePath": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs/script.py",
        "pythonInterpreterPath": str(mpi / "bin/python"),
    }


# AZ_BATCHAI_MPI_HOST_FILE is "the absolute file path for OpenMPI hostfile".
only_open_mpi = pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)


@only_open_mpi
def test_ranks_of_two_nodes_are_one_world(make: Callable[..., Hand], mpi: Path) -> None:
    """And none of them is on the machine of the other."""
    hand = prepared(make, mpi, HELLO)

    done = hand.run(nodes=2, customToolkitSettings=None, chainerSettings=chainer(mpi))

    assert done.execution_state == "succeeded", hand.text("stderr.txt")
    temps = [f"{node['folder']}/jobs/job" for node in hand.stand.control("GET", "nodes")]
    assert hand.text().splitlines() == [f"({n}, 3, '{temps[n]}', 1)" for n in (0, 1)]


@only_open_mpi
def test_a_rank_that_fails_fails_the_job(make: Callable[..., Hand], mpi: Path) -> None:
    hand = prepared(make, mpi, FAILS)

    done = hand.run(nodes=2, customToolkitSettings=None, chainerSettings=chainer(mpi))

    assert done.execution_state == "failed"
    assert done.execution_info.exit_code != 0


@only_open_mpi
def test_mpirun_starts_beside_files_of_killed_daemons(
    make: Callable[..., Hand], mpi: Path, tmp_path: Path
) -> None:
    """5.0.11 does not start one where another with its pid was killed."""
    hand = prepared(make, mpi, HELLO)
    env = [{"name": "TMPDIR", "value": str(littered(tmp_path / "full"))}]

    done = hand.run(
        nodes=2,
        customToolkitSettings=None,
        chainerSettings=chainer(mpi),
        environmentVariables=env,
    )

    assert done.execution_state == "succeeded", hand.text("stderr.txt")


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_a_custom_command_may_start_another_mpirun_on_the_hosts(
    make: Callable[..., Hand], mpi: Path
) -> None:
    hand = prepared(make, mpi, HELLO)
    script = chainer(mpi)["pythonScriptFilePath"]
    words = f"{mpi / 'bin/mpirun'} -n 2 -ppn 1 -hosts $AZ_BATCH_HOST_LIST {mpi / 'bin/python'}"

    done = hand.run(f"{words} {script}", nodes=2)

    assert done.execution_state == "succeeded", hand.text("stderr.txt")
    assert [line[:5] for line in hand.text().splitlines()] == ["(0, 3", "(1, 3"]


def test_the_host_file_of_the_service_is_for_open_mpi_and_mpich_refuses_it(
    make: Callable[..., Hand], mpi: Path
) -> None:
    """So whoever starts an mpirun has to write one of another form: `runspec_batchai.attempts`."""
    hand = make().ready(2)

    # Not `true`: Open MPI 5.0.11 waited for ever in 3 of 10 such runs on busy processors, its daemons
    # at rest and the program gone.
    done = hand.run(
        f'{mpi / "bin/mpirun"} -n 2 --hostfile "$AZ_BATCHAI_MPI_HOST_FILE" sleep 1', nodes=2
    )

    said = hand.text("stderr.txt")
    taken = done.execution_state == "succeeded"
    assert (taken, "token slots not supported" in said) == (
        mpi.name == "openmpi",
        mpi.name == "mpich",
    )
