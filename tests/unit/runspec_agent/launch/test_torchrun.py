"""What torchrun is told on each node, by a stand-in that writes it down."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent.process_nodes import Nodes
from tests.support.agent.shells import program

RECORDER = """
printf '%s\\0' "$@" >words
printf '%s ' "$TORCH_DISABLE_SHARE_RDZV_TCP_STORE" "$GLOO_SOCKET_IFNAME" "$RUNSPEC_LEADER" >env
sh "$RUNSPEC_AFTER"
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    program(tmp_path / "bin", "torchrun", RECORDER)
    program(tmp_path / "bin", "after", "exit 0")
    words = {
        "RUNSPEC_LAUNCH": "torchrun",
        "RUNSPEC_SLOTS": "4",
        "RUNSPEC_AFTER": str(tmp_path / "bin/after"),
        "RUNSPEC_LEASE_S": "60",
    }
    some = Nodes(tmp_path, 2, words, f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    yield some
    some.close()


def words(nodes: Nodes, rank: int) -> list[str]:
    return (nodes.home(rank) / "words").read_text().split("\0")[:-1]


@pytest.mark.process
def test_every_node_is_told_where_to_meet(nodes: Nodes) -> None:
    """The same address and port, its own rank, and the words as they are."""
    nodes.start_all(["train", "", "--lr", "${outputs.out}"])

    assert nodes.codes() == [0, 0]
    port = json.loads((nodes.folder / "meet/1/rank-0.json").read_text())["port"]
    for rank in range(2):
        assert words(nodes, rank) == [
            "--no-python",
            "--nnodes=2",
            "--nproc-per-node=4",
            f"--node-rank={rank}",
            "--master-addr=127.0.0.1",
            f"--master-port={port}",
            *("train", "", "--lr", str(nodes.home(rank) / "out")),
        ]
        assert (nodes.home(rank) / "env").read_text() == "1 lo node-0 "


@pytest.mark.slow
def test_a_failing_node_ends_the_others(nodes: Nodes) -> None:
    """With its code; they would wait for it until their own time-out."""
    program(nodes.folder / "bin", "after", '[ "$RUNSPEC_RANK" = 1 ] && exit 7; exec sleep 600')

    nodes.start_all(["train"])

    assert nodes.codes() == [7, 7]
    assert nodes.left() == []


@pytest.mark.process
def test_a_stop_of_one_node_stops_all(nodes: Nodes) -> None:
    """All with 143, also those whose torchrun makes 1 of it."""
    program(nodes.folder / "bin", "after", 'trap "exit 1" TERM; while :; do sleep 0.05; done')
    nodes.start_all(["train"])
    nodes.until(lambda: all((nodes.home(n) / "env").exists() for n in range(2)))

    nodes.send(1, signal.SIGTERM)

    assert nodes.codes() == [143, 143]
