"""Several nodes, one program: meeting, remote shell, exit codes and ends, with a stand-in for mpirun."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agent.process_nodes import Nodes, fake_mpirun as fake_mpirun

Make = Callable[..., Nodes]


@pytest.fixture
def make(tmp_path: Path, fake_mpirun: str) -> Iterator[Make]:
    made: list[Nodes] = []

    def nodes(count: int, **words: str) -> Nodes:
        made.append(Nodes(tmp_path, count, words, fake_mpirun))
        return made[-1]

    yield nodes
    for one in made:
        one.close()


def sh(script: str, *words: str) -> list[str]:
    return ["sh", "-c", script, "sh", *words]


@pytest.mark.process
def test_each_rank_runs_in_its_own_node(make: Make) -> None:
    """Its own words, directory and variables; and knows who leads."""
    nodes = make(3)
    script = 'printf "%s|" "$RUNSPEC_RANK" "$PWD" "$RUNSPEC_LEADER" "${RUNSPEC_START-none}" "$@"'

    nodes.start_all(sh(script + ' >"$1"', "${outputs.out}", ":", "", "it's\n", "$HOME;*"))

    assert nodes.codes() == [0, 0, 0]
    found = [(nodes.home(n) / "out").read_text() for n in range(3)]
    rest = ":||it's\n|$HOME;*|"
    expected = [f"{n}|{nodes.home(n)}|node-0|none|{nodes.home(n)}/out|{rest}" for n in range(3)]
    assert found == expected


@pytest.mark.process
def test_ranks_of_one_machine_have_the_host_names_of_their_nodes(make: Make) -> None:
    """Open MPI takes nodes of one host name for one node: rank 0's is the machine's."""
    nodes = make(3)

    nodes.start_all(sh('uname -n >"$1"', "${outputs.out}"))

    assert nodes.codes() == [0, 0, 0]
    found = [(nodes.home(n) / "out").read_text() for n in range(3)]
    assert found == [f"{os.uname().nodename}\n", "node-1\n", "node-2\n"]


@pytest.mark.slow
def test_a_node_that_gets_no_host_name_of_its_own_says_so(make: Make) -> None:
    """The job runs all the same. The kernel refuses names of more than 64 bytes."""
    nodes = make(2)
    nodes.host = "node-{}" + 60 * "n"

    nodes.start_all(sh('uname -n >"$1"', "${outputs.out}"))

    assert nodes.codes() == [0, 0]
    assert (nodes.home(1) / "out").read_text() == f"{os.uname().nodename}\n"
    assert "cannot have a host name of its own (invalid argument)" in nodes.said(1)
    assert "with Horovod, use launch: horovod" in nodes.said(1)


@pytest.mark.slow
def test_the_host_file_names_the_nodes_in_rank_order(make: Make) -> None:
    """On every node, for the user's program too."""
    nodes = make(2, RUNSPEC_SLOTS="4")

    nodes.start_all(["true"])

    assert nodes.codes() == [0, 0]
    found = {(nodes.home(n) / "hosts").read_text() for n in range(2)}
    assert found == {"node-0 slots=4\nnode-1 slots=4\n"}


@pytest.mark.process
def test_a_single_node_needs_no_rendezvous(make: Make) -> None:
    """Mpirun runs its ranks by itself."""
    nodes = make(1, RUNSPEC_MEET="")

    nodes.start_all(sh("exit 5"))

    assert nodes.codes() == [5]


@pytest.mark.slow
def test_rank_0_prints_the_output_of_all_ranks(make: Make) -> None:
    """Both streams, through the remote shell."""
    nodes = make(2)

    nodes.start_all(sh('echo "out $RUNSPEC_RANK"; echo "err $RUNSPEC_RANK" >&2'))

    assert nodes.codes() == [0, 0]
    assert sorted(nodes.said(0).splitlines()) == ["err 0", "err 1", "out 0", "out 1"]
    assert nodes.said(1) == ""


@pytest.mark.slow
def test_the_remote_shell_reads_its_words_as_ssh_does(make: Make, tmp_path: Path) -> None:
    """Joined with spaces, read by the sh of that node."""
    said = tmp_path / "said"  # rank 1, which fails, would end rank 0 before it has printed all
    wait = f"[ $RUNSPEC_RANK = 1 ] || touch {said}; until [ -e {said} ]; do sleep 0.1; done"
    nodes = make(2, FAKE_COMMAND=f"echo $RUNSPEC_RANK; echo a|tr a b ;{wait}; exit $RUNSPEC_RANK")

    nodes.start_all(["true"])

    assert nodes.codes() == [1, 1]
    assert sorted(nodes.said(0).split()) == ["0", "1", "b", "b"]


@pytest.mark.process
@pytest.mark.parametrize(("rank", "code"), [pytest.param(0, 7, marks=pytest.mark.slow), (1, 75)])
def test_a_failing_rank_ends_every_node_with_its_code(
    make: Make, tmp_path: Path, rank: int, code: int
) -> None:
    """Nothing of the others stays, and on each node the code is that of the program."""
    nodes = make(3, RUNSPEC_TOLD=str(tmp_path / "told"))

    nodes.start_all(sh(f'[ "$RUNSPEC_RANK" = {rank} ] && exit {code}; exec sleep 600'))

    assert nodes.codes() == [code, code, code]
    assert not (tmp_path / "told").exists()
    assert nodes.left() == []


@pytest.mark.slow
def test_a_node_that_never_comes_is_named(make: Make) -> None:
    """Exit 75, everywhere, after the time-out."""
    nodes = make(5, RUNSPEC_MEET_TIMEOUT_S="0.5")

    nodes.start(0, ["true"])
    nodes.start(2, ["true"])

    assert nodes.codes() == [75, 75]
    assert "missing: 1, 3-4" in nodes.said(0) + nodes.said(2)


@pytest.mark.slow
def test_nodes_do_not_wait_for_one_that_cannot_come(make: Make, tmp_path: Path) -> None:
    """Rank 0 has no mpirun: the others hear of it."""
    nodes = make(2)
    (tmp_path / "bin/mpirun").write_text("#!/bin/sh\necho mpirun of nobody\n")

    nodes.start_all(["true"])

    assert nodes.codes() == [2, 2]
    assert "'mpirun of nobody'" in nodes.said(0)
    assert "node 0 exited with code 2" in nodes.said(1)


@pytest.mark.process
def test_two_nodes_of_one_name_are_an_error(make: Make) -> None:
    """Mpirun would take them for one."""
    nodes = make(2)
    nodes.start(0, ["true"])
    nodes.words["RUNSPEC_HOST"] = "node-0"
    home = nodes.home(1)
    nodes.start(1, ["true"])
    nodes.send(1, signal.SIGKILL)
    meet = nodes.folder / "meet/1"
    nodes.until((meet / "rank-0.json").exists)

    record = (meet / "rank-0.json").read_text()
    (meet / "rank-1.json").write_text(record)

    nodes.processes[0].wait(60)
    assert nodes.processes[0].returncode == 2
    assert "nodes 0 and 1 have the same name 'node-0'" in nodes.said(0)
    assert home.exists()


@pytest.mark.slow
def test_the_meeting_place_is_nobody_elses(make: Make) -> None:
    """What lies there is run as commands."""
    nodes = make(2)

    nodes.start_all(["true"])

    assert nodes.codes() == [0, 0]
    meet = nodes.folder / "meet/1"
    assert stat.S_IMODE(meet.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(entry.stat().st_mode) & 0o077 for entry in meet.glob("*.json")}
    assert modes == {0}


@pytest.mark.slow
def test_a_request_without_the_token_ends_the_node(make: Make) -> None:
    """It is not rank 0's, whose ever it is."""
    nodes = make(2)
    nodes.start_all(sh("exec sleep 600"))
    meet = nodes.folder / "meet/1"
    nodes.until(lambda: any(meet.glob("out-1-*")))

    (meet / "ask-1-x.json").write_text('{"token": "", "command": "touch here"}')

    nodes.processes[1].wait(60)
    assert nodes.processes[1].returncode == 75
    assert not (nodes.home(1) / "here").exists()


SAVES = """
trap 'echo saved >saved; exit 1' TERM
echo >ready
while :; do sleep 0.05; done
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "told", [(0, 1), *(pytest.param((rank,), marks=pytest.mark.slow) for rank in (0, 1))]
)
def test_a_stop_reaches_the_ranks_of_all_nodes(make: Make, told: tuple[int, ...]) -> None:
    """Whichever nodes are told: they save, and all end with 143."""
    nodes = make(2, RUNSPEC_GRACE_S="60")
    nodes.start_all(sh(SAVES))
    nodes.until(lambda: all((nodes.home(n) / "ready").exists() for n in range(2)))

    for rank in told:
        nodes.send(rank, signal.SIGTERM)

    assert nodes.codes() == [143, 143]
    assert [(nodes.home(n) / "saved").exists() for n in range(2)] == [True, True]
    assert nodes.left() == []


@pytest.mark.slow
def test_ranks_that_ignore_sigterm_are_killed_after_the_grace_period(make: Make) -> None:
    """Ranks that ignore SIGTERM end all the same, on all nodes."""
    nodes = make(2, RUNSPEC_GRACE_S="0.5")
    nodes.start_all(sh('trap "" TERM; echo >ready; while :; do sleep 0.05; done'))
    nodes.until(lambda: all((nodes.home(n) / "ready").exists() for n in range(2)))

    nodes.send(0, signal.SIGTERM)

    assert nodes.codes() == [143, 143]
    assert nodes.left() == []


@pytest.mark.slow
def test_a_user_signal_reaches_the_ranks_of_the_node(make: Make) -> None:
    """Slurm's warning before the end, say; the job goes on."""
    nodes = make(2)
    script = 'trap "exit 0" USR1; echo >ready; while :; do sleep 0.05; done'
    nodes.start_all(sh(script))
    nodes.until(lambda: all((nodes.home(n) / "ready").exists() for n in range(2)))

    for rank in range(2):
        nodes.send(rank, signal.SIGUSR1)

    assert nodes.codes() == [0, 0]


@pytest.mark.process
def test_a_stop_before_all_nodes_have_come_is_a_stop(make: Make) -> None:
    """143, and no program was started."""
    nodes = make(2)
    nodes.start(1, ["touch", "ran"])
    nodes.until((nodes.folder / "meet/1/rank-1.json").exists)

    nodes.send(1, signal.SIGTERM)

    assert nodes.codes() == [143]


@pytest.mark.slow  # for the lease must be longer than a busy machine keeps a node waiting
@pytest.mark.parametrize("lost", [0, 1])
def test_a_node_that_is_gone_ends_the_job(make: Make, lost: int) -> None:
    """The others notice within the lease, say whom they lost, and leave nothing."""
    nodes = make(3, RUNSPEC_LEASE_S="4", RUNSPEC_GRACE_S="0.5")
    nodes.start_all(sh("echo >ready; exec sleep 600"))
    nodes.until(lambda: all((nodes.home(n) / "ready").exists() for n in range(3)))

    nodes.send(lost, signal.SIGKILL)

    codes = nodes.codes()
    assert codes.pop(lost) == -signal.SIGKILL
    assert 0 not in codes
    assert f"node {lost} (node-{lost})" in "".join(nodes.said(n) for n in range(3) if n != lost)
    assert nodes.left(but=lost) == []
