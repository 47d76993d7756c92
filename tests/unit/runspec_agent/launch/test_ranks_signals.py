"""A signal reaches each rank of this node once, and nothing else."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_agent.launch.mpi import Ranks

pytestmark = pytest.mark.process


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    found = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield found
    for one in found:
        one.kill()
        one.wait()


def test_a_signal_is_sent_to_the_ranks_that_have_started(
    sleepers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    rank, other = sleepers
    ranks = Ranks(str(tmp_path))

    assert not ranks.send(signal.SIGTERM)
    (tmp_path / f"rank.{rank.pid}").touch()
    assert ranks.send(signal.SIGTERM)

    assert rank.wait(30) == -signal.SIGTERM
    assert other.poll() is None


def test_a_rank_that_starts_later_gets_the_signal_too(
    sleepers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    rank, later = sleepers
    ranks = Ranks(str(tmp_path))
    (tmp_path / f"rank.{rank.pid}").touch()
    ranks.send(signal.SIGCONT)

    (tmp_path / f"rank.{later.pid}").touch()
    ranks.send_to_new(signal.SIGTERM)

    assert later.wait(30) == -signal.SIGTERM
    assert rank.poll() is None
