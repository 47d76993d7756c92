"""Every try of a job at AWS Batch, rehearsed: what its own fault was, and what was its machine's."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import Capture, calls, jobs, write

pytestmark = pytest.mark.slow


def await_try(region: Region, number: int) -> str:
    """Wait until a job runs for the *number*th time; give its id."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        for job in jobs(region):
            if job["running"] and job["starts"] == number:
                return str(job["id"])
        time.sleep(0.05)
    raise AssertionError(f"try {number} does not begin: {jobs(region)}")


def shown(capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    run(["status", "job", *words])
    return capsys.readouterr().out


def test_each_try_tells_how_it_ended(region: Region, tmp_path: Path, capsys: Capture) -> None:
    """One failed by itself, the next lost its machine, and the last needed too much memory."""
    job = write(
        'if [ "$RUNSPEC_ATTEMPT" = 1 ]; then exit 3; fi\necho up\nsleep 60',
        cluster={"capacity": "spot"},
        retry={"attempts": 2},
    )
    assert run(["apply", job, "--detach"]) == 0
    region.control("POST", "reclaim", {"jobId": await_try(region, 2)})
    region.control("POST", "out-of-memory", {"jobId": await_try(region, 3)})

    assert run(["logs", "-f", "job"]) == 1

    told = shown(capsys)
    lines = [line.strip() for line in told.splitlines()]
    assert "task 0 node 0: failed, exit code 137, attempt 3" in lines
    assert "attempt 1 of 3: exit code 3" in lines
    assert "attempt 2 of 3: the machine was reclaimed (Host EC2" in told
    assert (
        "attempt 3 of 3: exit code 137; the container used more than its memory: raise cluster"
        in told
    )
    assert "spot machine reclaimed 1 time" in lines
    (node,) = json.loads(shown(capsys, "--json"))["nodes"]
    tries = [(a["number"], a["exit_code"], a["reclaimed"]) for a in node["attempts"]]
    assert tries == [(1, 3, False), (2, None, True), (3, 137, False)]
    assert all(a["began_s"] <= a["ended_s"] for a in node["attempts"])


def test_of_many_tasks_those_that_failed_or_were_tried_again_are_told(
    region: Region, capsys: Capture
) -> None:
    job = write(
        'case "${sweep.n}-$RUNSPEC_ATTEMPT" in 7-*) exit 5 ;; 9-1) exit 6 ;; esac',
        sweep={"n": "0..23"},
        retry={"attempts": 2},
    )

    assert run(["apply", job]) == 1

    found: list[Any] = [line.strip() for line in shown(capsys).splitlines()]
    first = found.index("nodes: 23 succeeded, 1 failed")
    assert found[first : first + 7] == [
        "nodes: 23 succeeded, 1 failed",
        "task 7 node 0: failed, exit code 5, attempt 2",
        "attempt 1 of 2: exit code 5",
        "attempt 2 of 2: exit code 5",
        "task 9 node 0: succeeded, exit code 0, attempt 2",
        "attempt 1 of 2: exit code 6",
        "attempt 2 of 2: exit code 0",
    ]
    assert len(json.loads(shown(capsys, "--json"))["nodes"]) == 24
    assert len(calls(region, "SubmitJob")) == 1
