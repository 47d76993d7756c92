"""Ranks without MPI that the agent starts: their variables, and how they end together."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_agent.base import program_hooks
from runspec_agent.launch import ranks
from tests.support.agent.process_nodes import Nodes

Make = Callable[..., Nodes]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Nodes] = []

    def nodes(count: int, **words: str) -> Nodes:
        own = {"RUNSPEC_LAUNCH": "srun", "RUNSPEC_SLOTS": "2", "RUNSPEC_LEASE_S": "60", **words}
        made.append(Nodes(tmp_path, count, own, "/usr/bin:/bin"))
        return made[-1]

    yield nodes
    for one in made:
        one.close()


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_a_rank_has_the_variables_of_srun() -> None:
    """The number of a job that is none of Slurm's is made of the run, and is the same for all its ranks."""
    env = {"RUNSPEC_RUN": "train-abc", "RUNSPEC_TASK": "3"}

    found = ranks.of_rank(env, ["a", "b"], node=1, slots=4, local=2)

    job = found["SLURM_JOB_ID"]
    assert job.isdigit() and 0 < int(job) <= 2**31
    assert found == {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_JOB_NODELIST": "a,b",
        "SLURM_NODELIST": "a,b",
        "SLURM_STEP_NODELIST": "a,b",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_NTASKS": "8",
        "SLURM_NPROCS": "8",
        "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_TASKS_PER_NODE": "4(x2)",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_NODEID": "1",
        "SLURM_LOCALID": "2",
        "SLURM_PROCID": "6",
        "SLURMD_NODENAME": "b",
    }
    assert job == ranks.of_rank(env, ["a", "b"], node=0, slots=4, local=0)["SLURM_JOB_ID"]


def test_slurms_own_job_and_nodes_stay() -> None:
    """In an image on Slurm, the agent starts the ranks, and the job is Slurm's."""
    of_job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n2"}
    env = {**of_job, "SLURM_NTASKS": "2", "SLURM_PROCID": "1"}

    found = ranks.of_rank(env, ["n1", "n2"], node=1, slots=2, local=0)

    assert {name: found[name] for name in of_job} == of_job
    assert (found["SLURM_PROCID"], found["SLURM_NTASKS"]) == ("2", "4")


@pytest.mark.process
def test_the_first_node_waits_for_the_ranks_of_all(make: Make, tmp_path: Path) -> None:
    """The service ends the others when the first has ended."""
    nodes = make(2)
    script = '[ "$SLURM_NODEID" = 0 ] || sleep 2; : >"$RUNSPEC_DONE/$SLURM_PROCID-$SLURM_NTASKS"'
    nodes.words["RUNSPEC_DONE"] = str(tmp_path)

    nodes.start_all(sh(script))
    codes = nodes.codes()

    assert codes == [0, 0], nodes.said(0)
    ends = [(tmp_path / f"meet/1/end-{rank}.json").stat().st_mtime for rank in range(2)]
    assert ends[0] > ends[1]
    assert sorted(path.name for path in tmp_path.glob("?-4")) == ["0-4", "1-4", "2-4", "3-4"]


@pytest.mark.slow
def test_a_failed_rank_ends_all(make: Make, tmp_path: Path) -> None:
    """With its code, also one that the agent itself uses, while the others would wait for it."""
    told = tmp_path / "told"
    nodes = make(2, RUNSPEC_TOLD=str(told))

    nodes.start_all(sh('[ "$SLURM_PROCID" = 3 ] && exit 75; exec sleep 600'))

    assert nodes.codes() == [75, 75]
    assert not told.exists()  # which says that a code is the agent's own
    assert nodes.left() == []


@pytest.mark.process
def test_a_stop_of_one_node_stops_all(make: Make) -> None:
    nodes = make(2)
    nodes.start_all(sh('trap "exit 3" TERM; : >up-$SLURM_PROCID; while :; do sleep 0.05; done'))
    nodes.until(lambda: len(list(nodes.folder.glob("node */up-*"))) == 4)

    nodes.send(1, signal.SIGTERM)

    assert nodes.codes() == [143, 143]
    assert nodes.left() == []


@pytest.mark.process
def test_a_program_that_is_missing_is_named(make: Make) -> None:
    nodes = make(1)

    nodes.start_all(["no-such-program"])

    assert nodes.codes() == [127]
    assert "'no-such-program': command not found" in nodes.said(0)


@pytest.mark.process
def test_ranks_see_nothing_of_where_their_setup_writes_its_end(make: Make, tmp_path: Path) -> None:
    """A setup of their own, as `runspec` in a job has one, would write there, too."""
    nodes = make(1, RUNSPEC_SETUP=str(tmp_path / "setup"))
    program = sh(': >"$PWD/$SLURM_PROCID-${RUNSPEC_SETUP-none}"')

    nodes.start_all(program_hooks.wrap(sh(": >prepared"), program))

    assert nodes.codes() == [0], nodes.said(0)
    assert program_hooks.took_s(str(tmp_path / "setup")) in range(60)
    found = {path.name for path in nodes.home(0).iterdir()}
    assert {"prepared", "0-none", "1-none"} <= found, found
