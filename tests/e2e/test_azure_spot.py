"""Jobs on spot machines of Azure Batch, rehearsed: with notice or without, and where none is to be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from tests.support.azure import emulated_account
from tests.support.azure.emulated_account import (
    Capture,
    blobs as blobs,  # a fixture
    said,
    tasks,
    wait,
    write,
)

pytestmark = pytest.mark.slow
# Says its last word, and what it has done, when it is told to end.
LAST = (
    'echo "try $RUNSPEC_ATTEMPT"; [ "$RUNSPEC_ATTEMPT" = 1 ] || { cat "$RUNSPEC_OUTPUT_STATE"/*; exit 0; }; '
    "trap 'echo told; echo saved >\"$RUNSPEC_OUTPUT_STATE/f\"; exit 9' TERM; while :; do sleep 0.1; done"
)
STATE = [{"name": "state", "path": "/job/state"}]


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    yield from emulated_account.prepared(blobs, tmp_path, monkeypatch)


def begun(account: AzureBatch, capsys: Capture, text: str, nodes: int = 1, **fields: Any) -> str:
    """Give a run whose every node has begun."""
    cluster = {"capacity": "spot", "nodes": nodes}
    write(text, cluster=cluster, outputs=STATE, retry={"attempts": 1}, **fields)
    found: str = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: sum("try 1" in text for text in printed(account)) == nodes, "all nodes print")
    return found


def printed(account: AzureBatch) -> list[str]:
    found = [Path(f) for t in tasks(account) for a in t["attempts"][-1:] for f in a["folders"]]
    return [f.read_text() for p in found for f in p.glob("stdout.txt")]


def preempt(account: AzureBatch, found: str, **more: Any) -> None:
    where = {"jobId": found, "taskId": "task-00000"}
    account.control("POST", "preempt", {**where, **more})


def test_a_job_that_is_told_of_its_machines_end_saves_all_and_goes_on(
    account: AzureBatch, capsys: Capture
) -> None:
    """It is no failure: there is one try, and what the first said and wrote is there, to the last line."""
    found = begun(account, capsys, LAST)
    preempt(account, found, notice_s=5)

    assert run(["logs", found, "--follow"]) == 0

    log = capsys.readouterr().out
    assert "told\n" in log
    assert log.index("waiting until the machine is reclaimed") < log.index("try 2\nsaved\n")
    (node,) = said(capsys, "status", found)["nodes"]
    assert [a["reclaimed"] for a in node["attempts"]] == [True, False]


@pytest.mark.parametrize("lost", [0, 1])
def test_nodes_of_which_one_is_told_begin_again_together(
    account: AzureBatch, capsys: Capture, lost: int
) -> None:
    """Though the program of the other fails, as it does when it has lost its like."""
    fails = (
        f'echo $RUNSPEC_RANK >"$RUNSPEC_OUTPUT_STATE/rank"; '
        f'[ "$RUNSPEC_RANK" = {lost} ] || [ "$RUNSPEC_ATTEMPT" = 2 ] '
        "|| { echo try 1; sleep 3; exit 3; }; "
    )
    found = begun(account, capsys, fails + LAST, nodes=2)
    preempt(account, found, index=lost, notice_s=9)

    assert run(["logs", found, "--follow"]) == 0

    log = capsys.readouterr().out
    assert "told\n" in log
    assert log.count("try 2") == 2
    (task,) = tasks(account)
    assert (task["executionInfo"]["retryCount"], task["executionInfo"]["requeueCount"]) == (0, 1)


def test_a_machine_that_stays_after_all_ends_the_try(account: AzureBatch, capsys: Capture) -> None:
    found = begun(account, capsys, LAST)
    preempt(account, found, notice_s=600)
    wait(lambda: "waiting until the machine" in "".join(printed(account)), "it waits")

    account.control("POST", "withdraw", {"jobId": found, "taskId": "task-00000"})

    assert run(["logs", found, "--follow"]) == 1
    assert "no machine was reclaimed: the attempt ends now" in capsys.readouterr().out


def test_a_cancelled_job_does_not_wait_for_its_machines_end(
    account: AzureBatch, capsys: Capture
) -> None:
    found = begun(account, capsys, LAST)
    preempt(account, found, notice_s=600)
    wait(lambda: "waiting until the machine" in "".join(printed(account)), "it waits")

    assert run(["cancel", found]) == 0

    wait(lambda: not [t for t in tasks(account) if t["running"]], "nothing runs")
