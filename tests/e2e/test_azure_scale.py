"""Pools of a rehearsed Azure Batch by their formulas: woken at once, as large as needed, not for ever without spot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runspec_azure.batch import timing
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
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

pytestmark = pytest.mark.slow
NEVER_S = 3600.0
LATE_S = 60.0  # from when a formula is written to when it is evaluated, on a machine that is busy
# Formulas see time two hundred times faster: an evaluation each 1.5 s, a sample each 0.15 s.
FAST = {"second_s": 0.005, "sample_s": 0.15, "autoscale_s": 1.5}


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    monkeypatch.setattr(timing, "DEFAULT", replace(timing.DEFAULT, woken_s=1.0))
    for found in emulated_account.prepared(blobs, tmp_path, monkeypatch):
        found.control("PUT", "settings", FAST)
        yield found


def kinds(account: AzureBatch) -> list[tuple[int, int]]:
    """Give how many nodes of each kind each pool has, dedicated ones first."""
    with account.world.lock:
        return [
            (p.count(dedicated=True), p.count(dedicated=False))
            for p in account.world.pools.values()
        ]


def asleep(account: AzureBatch) -> None:
    """Have the pool go to no machines, and its formula not be evaluated any more."""
    wait(lambda: kinds(account) == [(0, 0)], "the pool is empty")
    account.control("PUT", "settings", {"autoscale_s": NEVER_S})
    (pool,) = account.world.pools.values()
    runs = pool.run
    wait(lambda: pool.run is not runs, "the last evaluation")
    assert kinds(account) == [(0, 0)]


def test_a_job_wakes_a_pool_with_machines_for_all_its_nodes(
    account: AzureBatch, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """At its next evaluation, five minutes later, samples would say so: here there is none."""
    write("true")
    said(capsys, "apply", "job.yaml")
    asleep(account)
    monkeypatch.setattr(timing, "DEFAULT", replace(timing.DEFAULT, woken_s=LATE_S))
    write("sleep 2", sweep={"n": [1, 2, 3]})

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    assert len({t["attempts"][0]["nodes"][0] for t in tasks(account)[1:]}) == 3
    assert len(calls(account, "Pool_EnableAutoScale")) == 1


def test_a_pool_that_a_sweep_makes_has_machines_for_all_of_it(
    account: AzureBatch, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Its resize takes longer than to submit, as it does at the service, and no evaluation follows."""
    account.control("PUT", "settings", {"resize_s": 3.0, "autoscale_s": NEVER_S})
    monkeypatch.setattr(timing, "DEFAULT", replace(timing.DEFAULT, woken_s=LATE_S))
    write("sleep 1", sweep={"n": [1, 2, 3, 4]})

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    assert len({t["attempts"][0]["nodes"][0] for t in tasks(account)}) == 4
    assert calls(account, "Pool_EnableAutoScale") == []


def test_a_thousand_tasks_are_submitted_by_twelve_calls_and_their_pool_by_two(
    account: AzureBatch, capsys: Capture
) -> None:
    """The pool is looked for, and made; or woken, where it is there."""
    account.control("PUT", "settings", {"dedicated_quota": 0})  # nothing runs
    write("true", sweep={"n": "1..1000"})
    submitted = Counter({"Job_Add": 1, "Task_AddCollection": 10, "Job_Patch": 1})

    said(capsys, "apply", "job.yaml", "--detach")
    first = Counter(call["operation"] for call in calls(account))
    said(capsys, "apply", "job.yaml", "--detach", "--new")
    second = Counter(call["operation"] for call in calls(account)) - first

    assert submitted.total() == 12
    assert first == submitted + Counter(["Pool_Get", "Pool_Add"])
    assert second == submitted + Counter(["Pool_Get", "Pool_EnableAutoScale"])


def test_tasks_of_many_nodes_do_not_wait_for_each_other_where_there_is_room(
    account: AzureBatch, capsys: Capture
) -> None:
    write("sleep 8", name="first", cluster={"nodes": 2}, sweep={"n": [1, 2]})
    first = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: [t["state"] for t in tasks(account)] == ["running"] * 2, "both run")
    write("true", name="second", cluster={"nodes": 2})

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    assert [t["state"] for t in tasks(account)] == ["running", "running", "completed"]
    (pool,) = account.world.pools.values()
    assert 6 <= pool.made <= 8  # a sample may have counted already what the pool is woken for
    assert run(["cancel", first]) == 0


def test_a_task_of_many_nodes_has_as_many_machines_and_no_more(
    account: AzureBatch, capsys: Capture
) -> None:
    write("sleep 3", cluster={"nodes": 3})

    found = said(capsys, "apply", "job.yaml")

    (pool,) = account.world.pools.values()
    assert (found["state"], pool.made) == ("succeeded", 3)


def test_where_no_spot_machine_comes_others_do_after_a_while(
    account: AzureBatch, capsys: Capture
) -> None:
    account.control("PUT", "settings", {"low_priority_quota": 0})
    write("sleep 2", cluster={"capacity": "spot-then-on-demand"})

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    (task,) = tasks(account)
    assert task["executionInfo"]["requeueCount"] == 0
    wait(lambda: kinds(account) == [(0, 0)], "the pool is empty")


def test_only_missing_spot_machines_are_replaced_by_on_demand_ones(
    account: AzureBatch, capsys: Capture
) -> None:
    """And only those that do not come are made up for."""
    account.control("PUT", "settings", {"low_priority_quota": 1})
    write("sleep 8", cluster={"capacity": "spot-then-on-demand"}, sweep={"n": [1, 2]})
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]

    wait(lambda: kinds(account) == [(1, 1)], "one machine of each kind")

    assert run(["logs", found, "--follow"]) == 0


def test_spot_alone_is_never_made_up_for(account: AzureBatch, capsys: Capture) -> None:
    account.control("PUT", "settings", {"low_priority_quota": 0})
    write("true", cluster={"capacity": "spot"})
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    (pool,) = account.world.pools.values()
    seen: list[object] = []

    def evaluated() -> bool:
        seen.extend([] if pool.run in seen else [pool.run])
        return len(seen) == 5

    wait(evaluated, "five evaluations")

    assert kinds(account) == [(0, 0)]
    wait(  # while the pool is resized once more, its errors are not there
        lambda: "spot machines is used up" in said(capsys, "status", found)["reason"], "the reason"
    )
    assert run(["cancel", found]) == 0
