"""Logs of AWS Batch, by the program itself: every line of every attempt, node and task, and what is no plain text."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.faults.chosen import ALL
from tests.support.aws.log_following import (
    GROUP,
    LIMIT_S,
    READY,
    Rehearsed,
    program,
    runspec,
    until,
)

JOBS = 50 if ALL else 20
STRANGE = (
    rb"printf 'caf\351 \377\376\n'",
    rb"printf '10%%\r50%%\r100%%\n'",
    rb"printf '\033[31mred\033[0m \033]0;title\007 \302\233 \177\n'",
    rb"head -c 200000 /dev/zero | tr '\0' x",
    b"echo",
    b"echo end",
)

pytestmark = pytest.mark.slow


def test_all_attempts_are_in_the_log_in_order_and_once(world: Rehearsed) -> None:
    run, job = world.apply("echo a try; exit 3", retry={"attempts": 3})
    names = [a["container"]["logStreamName"] for a in world.end(job)["attempts"]]

    shown = runspec("logs", run).stdout
    runspec("logs", "--save", world.folder / "saved.log", run)

    whole = b"".join(map(world.stored, names))
    assert whole.splitlines().count(b"a try") == len(names) == 3
    assert shown == whole
    assert (world.folder / "saved.log").read_bytes() == whole


def test_a_follower_sees_the_last_lines_of_an_attempt_before_the_next(world: Rehearsed) -> None:
    """Even where they come after the next attempt has begun."""
    gate = f"{world.folder}/gate-$AWS_BATCH_JOB_ATTEMPT"
    script = f"echo {READY}; while [ ! -e {gate} ]; do sleep 0.1; done; exit 3"
    run, job = world.apply(script, retry={"attempts": 2})
    first = until(lambda: world.stream(job))
    load = world.region.server.load_lines

    with subprocess.Popen(program("logs", "-f", run), stdout=subprocess.PIPE) as follower:
        (world.folder / "gate-1").touch()
        until(lambda: world.describe(job)[0]["attempts"])
        second = until(lambda: world.stream(job, but=first))
        until(lambda: world.says(second, READY))
        load(GROUP, first, [(int(time.time() * 1000), "late")])
        (world.folder / "gate-2").touch()
        shown = follower.communicate(timeout=LIMIT_S)[0]

    assert b"\nlate\n" in world.stored(first)
    assert shown == world.stored(first) + world.stored(second)


def test_each_node_of_a_gang_and_each_task_of_a_sweep_has_its_own_file(world: Rehearsed) -> None:
    nodes, gang = world.apply("echo node $RUNSPEC_RANK", cluster={"nodes": 2, "cpus": 1})
    tasks, array = world.apply("echo n ${sweep.n}", sweep={"n": [7, 8]})
    world.end(gang)
    world.end(array)

    for run, folder in ((nodes, "gang"), (tasks, "array")):
        (world.folder / folder).mkdir()
        assert runspec("logs", "--save", world.folder / folder, run).returncode == 0

    last = {f.name: f.read_text().splitlines()[-1] for f in world.folder.glob("*/*.log")}
    assert last == {
        "node-0.log": "node 0",
        "node-1.log": "node 1",
        "task-0-node-0.log": "n 7",
        "task-1-node-0.log": "n 8",
    }


def test_a_stream_that_is_not_there_yet_is_no_error(world: Rehearsed) -> None:
    world.set(starting_s=12.0)
    run, _ = world.apply("echo hello")

    now = runspec("logs", run)
    followed = runspec("logs", "-f", run)

    assert (now.returncode, now.stdout) == (0, b"")
    assert followed.returncode == 0, followed.stderr.decode()
    assert followed.stdout.splitlines()[-1] == b"hello"


def test_no_last_line_is_lost_of_many_jobs_that_print_and_leave(world: Rehearsed) -> None:
    run, _ = world.apply("echo last ${sweep.n}", sweep={"n": f"1..{JOBS}"})

    followed = runspec("logs", "-f", run)

    assert followed.returncode == 0, followed.stderr.decode()
    shown = [line.split(b"] ")[-1] for line in followed.stdout.splitlines()]
    found = sorted(line for line in shown if line.startswith(b"last "))
    assert found == sorted(b"last %d" % n for n in range(1, JOBS + 1))


def test_strange_lines_are_saved_as_stored_and_shown_without_control_characters(
    world: Rehearsed,
) -> None:
    run, job = world.apply("; ".join(line.decode() for line in STRANGE))
    stream = world.end(job)["container"]["logStreamName"]

    shown = runspec("logs", run).stdout.decode()
    runspec("logs", "--save", world.folder / "saved.log", run)

    saved = (world.folder / "saved.log").read_bytes()
    assert saved == world.stored(stream)
    assert "caf\ufffd \ufffd\ufffd".encode() in saved
    assert b"10%\r50%\r100%\n" in saved
    assert b"x" * 200_000 + b"\n" in saved
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []
    assert "\n100%\n" in shown
    assert "x" * 200_000 in shown
