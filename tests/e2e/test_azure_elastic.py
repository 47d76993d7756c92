"""Nodes that come and go on Azure Batch: single tasks on spot machines, each queued again by itself."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from runspec_jobs.provider.elastic_tasks import NOT_NEEDED
from tests.support.agent import elastic_nodes
from tests.support.agent.elastic_nodes import accounted, fixed, sgd, went
from tests.support.agent.elastic_sgd import OWN
from tests.support.azure import emulated_account
from tests.support.azure.emulated_account import (
    Capture,
    blobs as blobs,  # a fixture
    calls,
    said,
    tasks,
    wait,
    write,
)
from tests.support.profiles import priced

pytestmark = pytest.mark.slow
STEPS, LIMIT_S = 1500, 90.0


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    yield from emulated_account.prepared(blobs, tmp_path, monkeypatch)


def generation(capsys: Capture, found: str) -> tuple[int, int]:
    """Give number and nodes of the last generation that has done a step."""
    changes = said(capsys, "status", found)["changes"]
    done = [one for one in changes if one["first_step"] is not None]
    return (done[-1]["generation"], done[-1]["nodes"]) if done else (0, 0)


def begun(capsys: Capture, found: str) -> list[tuple[int, int]]:
    """Give number and nodes of the generations that have begun, as their nodes say."""
    capsys.readouterr()
    run(["logs", found])
    said = re.findall(r"runspec: generation (\d+): node \d+ of (\d+)", capsys.readouterr().out)
    return sorted({(int(number), int(nodes)) for number, nodes in said})


def test_training_goes_on_while_spot_machines_are_taken_away(
    account: AzureBatch, tmp_path: Path, capsys: Capture
) -> None:
    """One of three with a notice, and one without; what is computed is what one process computes."""
    argv = sgd(tmp_path, STEPS, 0.05)
    priced("azure-batch", 3.6)
    text = 'touch "$RUNSPEC_OUTPUT_OUT/of-$RUNSPEC_RANK"; exec ' + " ".join(argv)
    cluster = {"nodes": {"min": 1, "max": 3}, "capacity": "spot"}
    write(text, cluster=cluster, outputs=[{"name": "out", "path": "/job/out", "sync": "1s"}, OWN])
    found: str = said(capsys, "apply", "job.yaml", "--detach")["run"]

    def last() -> tuple[int, int]:
        return generation(capsys, found)

    wait(lambda: last()[1] == 3, "three run", LIMIT_S)
    first, _ = last()
    for lost, notice_s in ((1, 5), (0, 0)):
        before, _ = last()
        where = {"jobId": found, "taskId": f"task-0000{lost}"}
        account.control("POST", "preempt", {**where, "notice_s": notice_s})
        wait(lambda: last()[0] > before, f"{lost} goes", LIMIT_S)  # noqa: B023
        wait(lambda: last()[1] == 3, f"{lost} comes back", LIMIT_S)
    capsys.readouterr()
    run(["logs", found])
    assert "[node 1] runspec: this node leaves: " in capsys.readouterr().out  # it heard the notice
    (tmp_path / "pace").write_text("0")

    assert run(["logs", "-f", found]) == 0

    status = said(capsys, "status", found)
    states = [(n["rank"], n["state"]) for n in status["nodes"]]
    assert states == [(r, "succeeded") for r in range(3)]
    cost = {
        part["outcome"]: (part["attempts"], part["untimed"]) for part in status["cost"]["parts"]
    }
    assert cost == {"succeeded": (3, 0), "reclaimed": (2, 0)}, status["cost"]
    told = said(capsys, "report", found)["changes"]
    assert told == status["changes"]
    accounted(told)
    assert went(told, "lost") == [(0, "it was silent")]
    ((left, why),) = went(told, "left")
    assert left == 1 and "reclaimed" in why
    assert run(["fetch", found, str(tmp_path / "fetched")]) == 0
    names = {path.name for path in (tmp_path / "fetched" / "out").iterdir()}
    assert names == {"of-0", "state.json"}  # of the first node of each generation, and nobody else
    kept = json.loads((tmp_path / "fetched" / "out" / "state.json").read_text())
    alone = fixed(tmp_path, sgd(tmp_path, STEPS, 0), {})
    assert kept["losses"] == pytest.approx(alone["losses"], abs=1e-4)
    assert kept["samples"] == alone["samples"]
    of_own = [elastic_nodes.generations(tmp_path / "fetched", seat) for seat in range(3)]
    assert all(own[0] <= first < own[-1] == last()[0] for own in of_own), (first, last(), of_own)


def test_a_node_that_never_came_is_called_off_when_the_job_is_over(
    account: AzureBatch, tmp_path: Path, capsys: Capture
) -> None:
    """There is one machine for two nodes; a task that waits on would have another one started, later.

    The service is slow to see that the machine is free at last: else it would start the task there, to leave at once.
    """
    account.control("PUT", "settings", {"low_priority_quota": 1})
    go = tmp_path / "go"
    cluster = {"nodes": {"min": 1, "max": 2}, "capacity": "spot"}
    write(f"until [ -e {go} ]; do sleep 0.2; done", cluster=cluster)
    found: str = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: begun(capsys, found) == [(1, 1)], "one runs", LIMIT_S)
    with account.world.lock:
        account.world.jobs[found].tasks["task-00001"].ready_at = math.inf
    assert said(capsys, "status", found)["state"] == "running"
    assert calls(account, "Task_Terminate") == []  # as long as the job goes on, it may come
    go.touch()

    def over() -> dict[str, Any]:
        status: dict[str, Any] = said(capsys, "status", found)
        return status if status["state"] not in ("running", "waiting") else {}

    status = wait(over, "it is over", LIMIT_S)

    nodes = {(n["state"], n["reason"]) for n in status["nodes"]}
    assert nodes == {("succeeded", ""), ("cancelled", NOT_NEEDED)}
    assert (status["state"], status["exit_code"]) == ("succeeded", 0)
    assert len(calls(account, "Task_Terminate")) == 1
    assert sorted((t["state"], t["starts"]) for t in tasks(account)) == [
        ("completed", 0),
        ("completed", 1),
    ]


def test_a_node_that_is_given_back_has_no_task_until_it_is_asked_for(
    account: AzureBatch, tmp_path: Path, capsys: Capture
) -> None:
    argv = sgd(tmp_path, 300, 0.5)
    write(
        "exec " + " ".join(argv),
        cluster={"nodes": {"min": 1, "max": 3}},
        outputs=[{"name": "out", "path": "/job/out", "sync": "1s"}],
    )
    found: str = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: generation(capsys, found)[1] == 3, "three run", LIMIT_S)

    size = said(capsys, "resize", found, "2")["size"]

    assert size == {"asked": 2, "present": 2, "released": [{"task": 0, "node": 2}]}
    assert [task["state"] for task in tasks(account)] == ["running", "running", "completed"]
    wait(lambda: generation(capsys, found)[1] == 2, "two run", LIMIT_S)
    said(capsys, "resize", found, "3")
    wait(lambda: generation(capsys, found)[1] == 3, "it comes back", LIMIT_S)
    (tmp_path / "pace").write_text("0")
    assert run(["logs", "-f", found]) == 0
    status = said(capsys, "status", found)
    assert [(n["rank"], n["state"], n["attempt"]) for n in status["nodes"]] == [
        (0, "succeeded", 1),
        (1, "succeeded", 1),
        (2, "succeeded", 2),
    ]
    accounted(status["changes"])
    assert [one["nodes"] for one in status["changes"]] == [3, 2, 3]
    assert run(["fetch", found, str(tmp_path / "fetched")]) == 0
    kept = json.loads((tmp_path / "fetched" / "out" / "state.json").read_text())
    alone = fixed(tmp_path, sgd(tmp_path, 300, 0), {})
    assert kept["losses"] == pytest.approx(alone["losses"], abs=1e-9)
