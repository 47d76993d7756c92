"""What the parent of a killed agent makes of its end, for each shape of a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import end_causes
from runspec_agent.base.failure import LOST, Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.job.agent_watch import Begun, exit_code
from runspec_agent.retry import end_record
from runspec_agent.retry.end_record import End
from runspec_agent.retry.failure_count import AGAIN
from runspec_agent.store.folder import FolderBucket

RECORD = {"shape": "single", "nodes": 1, "attempts": 2, "ends": True}
AT = "runs/r/"


@pytest.fixture
def bucket(tmp_path: Path) -> FolderBucket:
    return FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path}"})


def begun(rank: int = 0, attempt: int = 1, together: int | None = None) -> Begun:
    return Begun(TaskIdentity("j", 0, rank, attempt), "/nowhere", together)


def keys(bucket: FolderBucket, folder: str) -> list[str]:
    at = AT + folder
    return sorted(found.key[len(at) :] for found in bucket.listing(at))


def test_another_attempt_follows_until_none_is_left(bucket: FolderBucket) -> None:
    ends = [exit_code(bucket, AT, RECORD, -9, begun(attempt=n)) for n in (1, 2)]

    assert ends == [AGAIN, 137]
    assert keys(bucket, "ends/") == ["0/1/0-137-killed", "0/2/0-137-killed"]
    assert keys(bucket, "failures/") == ["0-0/1-137", "0-0/2-137"]


def test_an_agent_that_ends_by_itself_has_its_own_exit_code(bucket: FolderBucket) -> None:
    """So has one that SIGTERM ends before it can handle that, or that no attempt had begun for."""
    assert exit_code(bucket, AT, RECORD, 3, begun()) == 3
    assert exit_code(bucket, AT, RECORD, -15, begun()) == 143
    assert exit_code(bucket, AT, RECORD, -9, None) == 137
    assert keys(bucket, "ends/") == keys(bucket, "failures/") == []


@pytest.mark.parametrize(
    ("end", "exits"),
    [
        (End(0, end_causes.PROGRAM), 0),
        (End(3, end_causes.PROGRAM), AGAIN),
        (End(143, end_causes.RECLAIMED), 143),
    ],
)
def test_an_end_that_the_agent_has_recorded_counts(
    bucket: FolderBucket, end: End, exits: int
) -> None:
    end_record.write(bucket, AT, begun().place, end, "n")

    assert exit_code(bucket, AT, RECORD, -9, begun()) == exits
    assert keys(bucket, "ends/") == [f"0/1/0-{end.code}-{end.cause}"]


def test_the_first_node_of_a_gang_learns_of_a_killed_agent(bucket: FolderBucket) -> None:
    """It decides whether another attempt follows."""
    record = {**RECORD, "shape": "nodes", "nodes": 2}

    assert exit_code(bucket, AT, record, -9, begun(rank=1)) == 137

    assert bucket.get(AT + "gang/0/1/ended-1") == b"137"
    assert keys(bucket, "failures/") == []


@pytest.mark.parametrize(("attempts", "exits"), [(2, AGAIN), (1, 137)])
def test_the_other_nodes_of_a_round_follow(bucket: FolderBucket, attempts: int, exits: int) -> None:
    record: dict[str, Any] = {**RECORD, "shape": "array", "nodes": 2, "attempts": attempts}

    assert exit_code(bucket, AT, record, -9, begun(rank=1, attempt=3, together=2)) == exits

    verdict = f'[{exits}, "node 1 exited with {exits}", false]'.encode()
    assert bucket.get(AT + "rounds/0/2/verdict") == verdict
    assert keys(bucket, "failures/") == ["0-1/3-137", "0-all/2"]


def test_a_killed_agent_of_an_elastic_job_is_a_lost_node(bucket: FolderBucket) -> None:
    record = {**RECORD, "elastic": {"min": 1, "max": 2}}

    assert exit_code(bucket, AT, record, -9, begun()) == AGAIN
    assert keys(bucket, "ends/") == ["0/1/0-137-killed"]
    assert keys(bucket, "failures/") == []


@pytest.mark.parametrize("refused", ["listing", "put", "claim"])
def test_a_store_that_refuses_to_count_a_killed_agent_ends_the_job(
    bucket: FolderBucket,
    refused: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It would be repeated for ever, since no failure is counted."""

    def refuse(*_: object) -> None:
        raise Failure("the store refuses", LOST)

    record = {**RECORD, "shape": "array", "nodes": 2}
    monkeypatch.setattr(bucket, refused, refuse)

    assert exit_code(bucket, AT, record, -9, begun(together=1)) == 137
    assert "the failure cannot be counted: the store refuses" in capsys.readouterr().err


# As process 1 of a container, which gets no signal without a handler
AGENT = """
import os, signal, sys
from runspec_agent.job import entry_point

class Agent:
    def __init__(self, bucket, env, *more):
        self.bucket, self.env = bucket, env

    def run(self, words, signals):
        return 143 if signal.SIGTERM in signals.wait(2.0) else 0

    def keep(self):
        pass

    def note(self, code, why):
        return code

def read_record(bucket, at):
    os.kill(os.getpid(), signal.SIGTERM)
    return {{"ends": {ends}}}

signal.signal(signal.SIGTERM, signal.SIG_IGN)
entry_point.attempts.read_record, entry_point.Agent = read_record, Agent
sys.exit(entry_point.main(["--", "true"]))
"""


@pytest.mark.process
@pytest.mark.parametrize("ends", [True, False])
def test_a_signal_while_the_record_is_read_reaches_the_agent(tmp_path: Path, ends: bool) -> None:
    env = {**os.environ, "RUNSPEC_STORE": f"file://{tmp_path}", "RUNSPEC_RUN": "r"}

    done = subprocess.run(
        [sys.executable, "-c", AGENT.format(ends=ends)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 143, done.stderr
