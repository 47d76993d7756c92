"""A reserved pool of twelve nodes: an important job takes four of them from a training, and gives them back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_elastic_local import Job, start as start
from tests.support import process_table
from tests.support.agent.elastic_nodes import accounted, fixed, sgd, went

pytestmark = pytest.mark.slow

STEPS = 200  # it waits after each until the nodes have come and gone


def size(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.ask("status", "elastic", "--json"))["size"]
    return found


def test_nodes_that_are_given_back_cost_no_step_and_come_when_they_are_asked_for(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(steps=STEPS, pace_s=1.0, cluster={"nodes": {"min": 4, "max": 12}})
    job.until(lambda: len(job.seats()) == 12 and job.steps())

    said = json.loads(job.ask("resize", "elastic", "8", "--json"))
    kept = job.seats()
    job.until(lambda: len(job.seats()) == 8 and job.steps())
    four = {"task": 0}
    away = [{**four, "node": node} for node in (8, 9, 10, 11)]
    assert said["size"] == size(job) == {"asked": 8, "present": 8, "released": away}
    assert "8 nodes are asked for, 8 run; released: 8, 9, 10, 11" in job.ask("status", "elastic")
    assert len(agents(job)) == 8 and set(kept) <= set(range(8))

    back = json.loads(job.ask("resize", "elastic", "12", "--json"))
    assert back["size"] == {"asked": 12, "present": 12, "released": []}
    job.until(lambda: len(job.seats()) == 12 and job.steps())
    job.ask("release", "elastic", "0", "3")
    job.until(lambda: len(job.seats()) == 10 and job.steps())
    (tmp_path / "code/pace").write_text("0")
    told, _ = job.applying.communicate(timeout=90)

    assert job.applying.returncode == 0, told
    job.ask("fetch", "elastic", "here")
    found = json.loads((tmp_path / "here/out/state.json").read_text())
    alone = fixed(tmp_path, sgd(tmp_path / "code", STEPS, 0), {})
    assert found["losses"] == pytest.approx(alone["losses"], abs=1e-9)
    assert found["samples"] == alone["samples"]
    changes = json.loads(job.ask("status", "elastic", "--json"))["changes"]
    accounted(changes)
    assert went(changes, "lost") == []
    sizes = [change["nodes"] for change in changes]
    assert (sizes[0], sizes[-1], {8, 12, 10} - {*sizes}) == (12, 10, set())


def agents(job: Job) -> list[int]:
    supervisor = json.loads((job.run / "started.json").read_text())["pid"]
    around = dict(process_table.environments())
    of_run = f"RUNSPEC_RUN={job.run.name}".encode()
    children = process_table.children().get(supervisor, [])
    return [pid for pid in children if of_run in around.get(pid, b"").split(b"\0")]
