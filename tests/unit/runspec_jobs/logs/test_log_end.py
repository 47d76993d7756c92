"""A run that failed is told with the end of the log that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.logs.log_end import MOST_BYTES, LogEnd, log_end
from runspec_jobs.provider import Client, NodeStatus, State, Status
from runspec_jobs.provider.streams.log_streams import Chunk

Capture = pytest.CaptureFixture[str]


@dataclass
class Log:
    """The log of a node, of which a service gives at most 64 KiB at once."""

    rank: int
    text: bytes
    task: int = 0

    def read(self, position: str | None) -> Chunk:
        at = int(position or 0)
        data = self.text[at : at + 65536]
        return Chunk(data, str(at + len(data)))


@dataclass
class Service:
    logs: Sequence[Log]
    poll_s: float = 0.0

    def streams(self, run: str) -> Sequence[Log]:
        return self.logs


def node(rank: int, code: int | None, state: State = State.FAILED) -> NodeStatus:
    return NodeStatus(0, rank, 1, state, "", code)


def found(*logs: bytes, code: int | None = 3, nodes: Sequence[NodeStatus]) -> LogEnd | None:
    service = cast(Any, Service([Log(rank, text) for rank, text in enumerate(logs)]))
    status = Status(State.FAILED, "why", code, tuple(nodes))
    return log_end(lambda: cast(Client, service), "r-1", status)


def test_the_node_that_failed_first_is_the_one_with_the_exit_code_of_the_run() -> None:
    nodes = [node(0, 143), node(1, 3)]

    assert found(b"ended\n", b"broken\n", nodes=nodes) == LogEnd(0, 1, ["broken"])
    assert found(b"ended\n", b"broken\n", code=None, nodes=nodes) == LogEnd(0, 0, ["ended"])


def test_the_last_lines_are_as_a_screen_shows_them() -> None:
    text = b"1\n2\n3\n\n10%\r100%\r\n\x1b[31mred\x1b[0m\n6\nlast"

    assert found(text, nodes=[node(0, 3)]) == LogEnd(0, 0, ["3", "100%", "red", "6", "last"])


def test_a_long_log_is_not_read_to_its_end() -> None:
    assert found(b"x\n" * MOST_BYTES, nodes=[node(0, 3)]) == LogEnd(0, 0, None)
    assert found(b"", nodes=[node(0, 3)]) == LogEnd(0, 0, [])


def test_a_run_that_did_not_fail_has_no_such_end() -> None:
    assert found(b"fine\n", nodes=[]) is None
    assert found(nodes=[node(0, 3)]) is None
    status = Status(State.FAILED, "", 3, (node(0, 3),))
    assert log_end(None, "r-1", status) == LogEnd(0, 0, None)
    service = cast(Any, Service([Log(0, b"x\n")]))
    status = Status(State.CANCELLED, "", 143, (node(0, 143),))
    assert log_end(lambda: cast(Client, service), "r-1", status) is None


@pytest.mark.process
def test_apply_and_status_name_the_command_that_was_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    head = "apiVersion: runspec/v1\nname: toy\nprovider: local\ncluster: {nodes: 2}\n"
    Path("job.yaml").write_text(
        f"{head}run: |\n  [ $RUNSPEC_RANK = 0 ] && exec sleep 60\n  pyton3 x.py\n"
    )

    assert run(["apply", "job.yaml"]) == 1
    applied = capsys.readouterr().err
    assert run(["status", "toy"]) == 0
    told = capsys.readouterr().out

    for text in (applied, told):
        assert (
            "the log of node 1 ends with the lines below, and runspec logs toy --node 1 shows all"
            in text
        )
        assert "pyton3: not found" in text
