"""Whoever says that a node is to go, its program hears of it in one way: a file, then one SIGTERM, and time to save."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.end_causes import AWAY
from tests.support.agent.elastic_nodes import Elastic
from tests.support.agent.metadata_services import NOTICE, AzureMachine, Machine
from tests.support.saved_outputs import saved

pytestmark = pytest.mark.slow

PROGRAM = """\
import json, os, signal, sys, time

told, notice = [], os.environ["RUNSPEC_NOTICE"]

def hear(number, frame):
    told.append(open(notice).read() if os.path.exists(notice) else None)

signal.signal(signal.SIGTERM, hear)
open(os.path.join(os.environ["RUNSPEC_OUTPUT_OUT"], "begun"), "w").close()
while not told:
    time.sleep(0.02)
until = time.monotonic() + 1.0  # to save; a second signal may come meanwhile
while time.monotonic() < until:
    time.sleep(0.02)
with open(os.path.join(os.environ["RUNSPEC_OUTPUT_OUT"], "saved"), "w") as file:
    json.dump(told, file)
"""
EVENT = {"EventType": "Preempt", "Resources": ["vmss_3"], "NotBefore": "soon"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Elastic]]:
    """Start one node of at least one, and wait until its program has begun."""
    jobs: list[Elastic] = []

    def one(env: dict[str, str], at: Callable[[Elastic], list[str]], **more: Any) -> Elastic:
        (tmp_path / "program.py").write_text(PROGRAM)
        argv = [sys.executable, str(tmp_path / "program.py")]
        job = Elastic(tmp_path, argv, 1, 2, **more)
        jobs.append(job)
        job.env.update(env)
        words = at(job)
        job.at = lambda seat: words
        job.start(0)
        begun = tmp_path / "node-0-1" / "out" / "begun"
        job.until(begun.exists, "the program begins")
        return job

    yield one
    for job in jobs:
        job.close()


def is_saved(job: Elastic) -> bool:
    return "saved" in saved(job.kept())


def check(job: Elastic, why: str, ends_with: int = 143) -> None:
    """It heard once, could read why, and what it saved then counts; others know that the node has gone."""
    code = job.ended(0)

    assert json.loads(saved(job.kept())["saved"]) == [why + "\n"]
    assert code == ends_with
    names = [path.name for path in (job.run / "elastic" / "0" / "nodes").iterdir()]
    assert [name.rpartition(",")[2] for name in sorted(names)][1:] == ["gone", "leaving"]
    assert job.state()["leader"] == ""


def nobody(job: Elastic) -> list[str]:
    return []


def test_a_node_leaves_after_a_signal(start: Callable[..., Elastic]) -> None:
    job = start({}, nobody)

    job.tell(0, signal.SIGTERM)

    check(job, "told to end")


def test_a_node_leaves_after_a_signal_to_its_slurm_batch_script(
    start: Callable[..., Elastic],
) -> None:
    """As at the end of its time, and before it makes room for another job."""

    def batch(job: Elastic) -> list[str]:
        zipapp = str(job.folder / "inside.pyz")
        return [sys.executable, "-IS", zipapp, "batch", "--"]

    own = {"SLURM_ARRAY_JOB_ID": "j", "SLURM_ARRAY_TASK_ID": "0", "SLURM_JOB_ID": "j"}
    job = start(own, batch)

    job.nodes[0].send_signal(signal.SIGTERM)

    check(job, "told to end")


def test_a_released_node_leaves(start: Callable[..., Elastic]) -> None:
    """It ends with 0 where a service would repeat a failure, and leaves at once if it is started again."""
    job = start({}, nobody, ends=True)
    (job.run / "released").mkdir()

    (job.run / "released/0").touch()

    check(job, AWAY, 0)
    job.start(0)
    assert job.ended(0) == 0
    assert "this node was released" in job.said(0) and "generation" not in job.said(0)
    ends = sorted(path.name for path in (job.run / "ends/0").glob("*/*"))
    assert ends == ["0-143-released"] * 2


def test_a_node_leaves_after_a_notice_of_ec2(start: Callable[..., Elastic]) -> None:
    with Machine() as machine:
        job = start(machine.env(), nobody, spot=True)

        machine.ends = NOTICE

        check(job, "the machine will be reclaimed at 2026-11-21T20:22:00Z")


def test_a_node_saves_after_a_notice_of_azure_and_stays_until_reclaimed(
    start: Callable[..., Elastic],
) -> None:
    """It is there until it is taken, or is to stay after all: Azure Batch counts who ends before that as failed."""
    with AzureMachine() as machine:
        job = start(machine.env(), nobody, spot="azure")

        machine.tells(EVENT)

        job.until(lambda: is_saved(job), "it saves")
        assert job.nodes[0].poll() is None
        machine.tells()
        check(job, "the machine will be reclaimed at soon")


def test_the_timeout_ends_the_job_on_all_nodes_and_saves(tmp_path: Path) -> None:
    """Also on one that came later. What is saved then counts, and the end records say why."""
    script = (
        "trap 'echo last >\"$RUNSPEC_OUTPUT_OUT/f\"; exit 0' TERM; while :; do sleep 0.05; done"
    )
    job = Elastic(tmp_path, ["sh", "-c", script], 1, 2, timeout_s=15, ends=True)
    job.start(0)
    job.until(lambda: job.seats() == [0], "the first node runs")
    job.start(1)

    codes = [job.ended(0), job.ended(1)]

    assert codes == [124, 124]
    state = job.state()
    assert (state["code"], state["why"]) == (124, "timeout: not done after 15 s")
    assert saved(job.kept())["f"] == b"last\n"
    causes = [path.name.rpartition("-")[2] for path in sorted((job.run / "ends").glob("*/*/*"))]
    assert causes == ["timeout", "timeout"]


def test_a_programs_own_code_is_not_that_of_a_refused_store(tmp_path: Path) -> None:
    """The service would end all tasks at 77; the end record has the program's code."""
    job = Elastic(tmp_path, ["sh", "-c", "exit 77"], 1, 1, ends=True, stops=77)
    job.start(0)

    assert job.ended(0) == 75

    assert job.state()["code"] == 77
    assert [path.name for path in (job.run / "ends").glob("*/*/*")] == ["0-77-program"]
