"""MPI inside an allocation of Slurm: what mpirun does not see, and ranks that srun starts, with stand-ins for both."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_agent.launch import slurm
from runspec_agent.rendezvous.shared_directory import Node
from tests.support.agent.process_nodes import Nodes, fake_mpirun as fake_mpirun
from tests.support.agent.shells import program

pytestmark = pytest.mark.process

# Starts so many ranks on each node, with what srun gives them, and tells the highest code. Those of the second node
# descend from no agent of theirs, as all do where Slurm's daemon starts them.
SRUN = """
echo "$*" >"$ASKED"; env | grep -E "^(SLURM|PMI)" | sort >>"$ASKED"
for word; do
  case $word in
    --nodes=*) nodes=${word#*=} ;;
    --ntasks-per-node=*) slots=${word#*=} ;;
    sh) break ;;
  esac
  shift
done
shift
pids= proc=0
for node in $(seq 0 $((nodes - 1))); do
  for _ in $(seq $slots); do
    (cd / && SLURM_NODEID=$node SLURM_PROCID=$proc exec sh "$@") & pids="$pids $!" proc=$((proc + 1))
  done
done
trap 'kill -9 $pids' TERM
code=0
for pid in $pids; do wait $pid; got=$?; [ $got -le $code ] || code=$got; done
exit $code
"""
Make = Callable[..., Nodes]


def test_the_ranks_get_their_share_of_a_node() -> None:
    """Beside the agents, which hold all of it."""
    env = {"RUNSPEC_MPI": "pmi2", "SLURM_CPUS_ON_NODE": "9"}

    found = slurm.srun(env, 3, 4)

    assert (
        found[: found.index("sh")]
        == (
            "srun --overlap --mpi=pmi2 --nodes=3 --ntasks=12 --ntasks-per-node=4 --cpus-per-task=2 "
            "--kill-on-bad-exit=0 --input=none --chdir=/"
        ).split()
    )


def test_more_ranks_than_cores_are_allowed() -> None:
    """As everywhere else."""
    found = slurm.srun({"RUNSPEC_MPI": "pmix", "SLURM_CPUS_ON_NODE": "2"}, 1, 4)

    assert {"--overcommit", "--cpus-per-task=1"} <= set(found)


def test_srun_is_not_told_of_the_step_that_it_is_called_in() -> None:
    """It would take its words for wishes."""
    env = {
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "2",
        "SLURM_CPU_BIND": "x",
        "PMI_RANK": "0",
        "A": "1",
    }
    nodes = [Node(0, "a", "", "", 0, "/tmp/a/start.sh"), Node(1, "b", "", "", 0, "/tmp/b/start.sh")]

    assert slurm.env_of_srun(env, nodes) == {
        "A": "1",
        "SLURM_JOB_ID": "7",
        "RUNSPEC_STARTS": "/tmp/a/start.sh:/tmp/b/start.sh",
    }


@pytest.fixture
def make(tmp_path: Path, fake_mpirun: str) -> Iterator[Make]:
    made: list[Nodes] = []
    program(tmp_path / "bin", "srun", SRUN)

    def nodes(count: int, **words: str) -> Nodes:
        env = {
            "RUNSPEC_MPI": "pmix",
            "ASKED": str(tmp_path / "asked"),
            "SLURM_JOB_ID": "7",
            "SLURM_CPUS_ON_NODE": "4",
            "SLURM_NTASKS": str(count),
            "PMI_RANK": "0",
            **words,
        }
        made.append(Nodes(tmp_path, count, env, fake_mpirun))
        return made[-1]

    yield nodes
    for one in made:
        one.close()


def sh(script: str, *words: str) -> list[str]:
    return ["sh", "-c", script, "sh", *words]


def test_srun_starts_the_ranks_with_each_nodes_own_words(make: Make, tmp_path: Path) -> None:
    """Its directory, outputs and host file; what srun says of a rank stays."""
    nodes = make(2, RUNSPEC_SLOTS="2")
    script = (
        'printf "%s|" "$RUNSPEC_RANK" "$PWD" "$RUNSPEC_LEADER" "${RUNSPEC_STARTS-none}" "$@" '
        '>"$1-$SLURM_PROCID"; cat "$RUNSPEC_HOSTFILE" >>"$1-$SLURM_PROCID"'
    )

    nodes.start_all(sh(script, "${outputs.out}", "it's\n"))

    assert nodes.codes() == [0, 0], [nodes.said(n) for n in range(2)]
    hosts = "node-0 slots=2\nnode-1 slots=2\n"
    for node, proc in ((0, 0), (0, 1), (1, 2), (1, 3)):
        out = nodes.home(node) / "out"
        expected = f"{node}|{nodes.home(node)}|node-0|none|{out}|it's\n|{hosts}"
        assert Path(f"{out}-{proc}").read_text() == expected
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "SLURM_JOB_ID=7"


@pytest.mark.parametrize(
    "rest", [pytest.param("exec sleep 600", marks=pytest.mark.slow), "sleep 1; exit 9"]
)
def test_the_code_is_that_of_the_rank_that_failed_first(make: Make, rest: str) -> None:
    """Srun tells the highest, that of those which were ended then."""
    nodes = make(2, RUNSPEC_GRACE_S="0.5")

    nodes.start_all(sh('[ "$SLURM_PROCID" = 1 ] && exit 7; ' + rest))

    assert nodes.codes() == [7, 7]
    assert nodes.left() == []


def test_a_stop_reaches_the_ranks_and_not_srun(make: Make) -> None:
    """They save, on all nodes."""
    nodes = make(2, RUNSPEC_GRACE_S="60")
    nodes.start_all(
        sh("trap 'echo saved >saved; exit 1' TERM; echo >ready; while :; do sleep 0.05; done")
    )
    nodes.until(lambda: all((nodes.home(n) / "ready").exists() for n in range(2)))

    nodes.send(0, signal.SIGTERM)

    assert nodes.codes() == [143, 143]
    assert [(nodes.home(n) / "saved").exists() for n in range(2)] == [True, True]


def test_mpirun_does_not_see_slurm_and_its_ranks_do(
    make: Make, tmp_path: Path, fake_mpirun: str
) -> None:
    """It would take its nodes and its launcher from there."""
    real = tmp_path / "bin/mpirun.real"
    os.rename(tmp_path / "bin/mpirun", real)
    program(
        tmp_path / "bin", "mpirun", f'env | grep -E "^(SLURM|PMI)" >>"$ASKED"; exec {real} "$@"'
    )
    nodes = make(1, RUNSPEC_MPI="", RUNSPEC_MEET="")

    nodes.start_all(sh('echo "$SLURM_JOB_ID $SLURM_NTASKS ${PMI_RANK-none}"'))

    assert nodes.codes() == [0]
    assert nodes.said(0) == "7 1 none\n"
    seen = (
        (tmp_path / "asked").read_text().split()
    )  # by --version, and not by what starts the ranks
    assert sorted(seen) == [
        "PMI_RANK=0",
        "SLURM_CPUS_ON_NODE=4",
        "SLURM_JOB_ID=7",
        "SLURM_NTASKS=1",
    ]
