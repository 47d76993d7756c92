"""What following a job of AWS Batch costs its service."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.aws.log_following import (
    Rehearsed,
    asked,
    program,
    runspec,
    until,
)

pytestmark = pytest.mark.slow


def last_call(world: Rehearsed) -> float:
    at: float = world.region.control("GET", "calls")[-1]["at"]
    return at


def idle(
    world: Rehearsed, seconds: float, *words: object, begun: str = "GetLogEvents"
) -> Counter[str]:
    """Follow for so long what prints nothing; count the calls once it has begun."""
    before = asked(world, 0.0)[begun]
    follower = subprocess.Popen(program("logs", "-f", *words), stdout=subprocess.DEVNULL)
    try:
        until(lambda: asked(world, 0.0)[begun] > before + 2)
        since = last_call(world)
        time.sleep(seconds)
        return asked(world, since, since + seconds)
    finally:
        follower.kill()
        follower.wait()


@pytest.mark.parametrize("saved", [False, True])
def test_an_idle_follower_asks_once_a_second(world: Rehearsed, tmp_path: Path, saved: bool) -> None:
    job, seconds = world.waiting(), 10
    more = ("--save", tmp_path / "saved.log") if saved else ()

    calls = idle(world, seconds, job.run, *more)

    assert calls.pop("ListJobs", 0) <= 1, "for a second job of the run"
    assert set(calls) == {"GetLogEvents", "DescribeJobs"}
    assert 5 <= calls["GetLogEvents"] <= seconds + 1
    assert 5 <= calls["DescribeJobs"] <= seconds + 1


def test_a_run_that_ended_a_while_ago_is_read_without_waiting(world: Rehearsed) -> None:
    run, job = world.apply("echo hello")
    stopped_s = world.end(job)["stoppedAt"] / 1000
    until(lambda: time.time() > stopped_s + 7)

    assert runspec("logs", run).stdout.splitlines()[-1] == b"hello"
    assert asked(world, 0.0)["GetLogEvents"] == 2


def test_a_follower_of_an_array_describes_all_its_jobs_at_once(world: Rehearsed) -> None:
    count = 20
    gate = world.folder / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 1; done"
    run, job = world.apply(script, sweep={"n": f"1..{count}"})
    until(lambda: world.describe(job)[0]["arrayProperties"]["statusSummary"]["RUNNING"] == count)

    calls = idle(world, 10, run)

    polls = calls["GetLogEvents"] / count
    assert calls["DescribeJobs"] <= 11
    assert polls <= 11


def test_ten_thousand_children_that_wait_are_followed_by_their_parent(world: Rehearsed) -> None:
    """One call a second, and `status` says why they wait by looking at one."""
    world.set(capacity="none")
    run, _ = world.apply("true", sweep={"n": "1..10000"})
    since = last_call(world)

    told = runspec("status", run).stdout.decode()

    assert "AWS has no such machine now" in told
    once = asked(world, since)
    assert (
        once["DescribeJobs"] <= 4
    )  # of the parent and of a child, for the state and for the nodes
    assert set(once) <= {"DescribeJobs", "ListJobs"}
    calls = idle(world, 10, run, begun="DescribeJobs")
    assert 2 <= calls["DescribeJobs"] <= 11
    assert set(calls) - {"ListJobs"} == {"DescribeJobs"}
    assert calls["ListJobs"] <= 1, "for a second job of the run"


@pytest.mark.matrix  # a minute and a half of processor time
def test_of_many_children_every_line_is_shown_though_few_run_at_once(world: Rehearsed) -> None:
    """None of them lasts for long: some begin and end between two looks."""
    count = 110
    run, _ = world.apply("echo child $AWS_BATCH_JOB_ARRAY_INDEX", sweep={"n": f"1..{count}"})

    done = runspec("logs", "-f", run)

    lines = [line for line in done.stdout.decode().splitlines() if " child " in line]
    assert (done.returncode, len(lines)) == (0, count), done.stderr
    assert len(set(lines)) == count
