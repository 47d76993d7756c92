"""Jobs on a rehearsed Azure Batch, by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.options import BatchOptions
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from runspec_jobs.provider import AlreadyExists, Conflict, Request, Scope, Step
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
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    yield from emulated_account.prepared(blobs, tmp_path, monkeypatch)


def made(account: AzureBatch) -> list[str]:
    return [c["operation"] for c in calls(account) if c["method"] not in ("GET", "HEAD")]


def test_a_second_apply_makes_nothing_and_asks_little(account: AzureBatch, capsys: Capture) -> None:
    write("echo hello")
    first = said(capsys, "apply", "job.yaml")
    before = len(calls(account))
    things = made(account)

    again = said(capsys, "apply", "job.yaml")

    assert (first["state"], again["run"]) == ("succeeded", first["run"])
    assert made(account) == things
    assert len(calls(account)) - before <= 6


@pytest.mark.parametrize(
    "kind",
    [
        "busy",
        pytest.param("throttle", marks=pytest.mark.matrix),
        pytest.param("error-before", marks=pytest.mark.matrix),
        "error-after",
    ],
)
def test_apply_goes_on_after_one_failure_of_each_request_that_makes_something(
    kind: str, account: AzureBatch, capsys: Capture
) -> None:
    """Requests name what they make, so the second one makes nothing twice."""
    write("echo hello")
    names = ("Pool_Add", "Job_Add", "Task_AddCollection", "Job_Patch")
    faults = [{"operation": name, "kind": kind, "seconds": 0} for name in names]
    account.control("PUT", "faults", faults)

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    assert {name: made(account).count(name) for name in names} == dict.fromkeys(names, 2)


def test_a_cancelled_run_ends_and_says_so(account: AzureBatch, capsys: Capture) -> None:
    write("echo begun; sleep 60")
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: [t for t in tasks(account) if t["state"] == "running"], "a task runs")

    code = run(["cancel", found])

    assert code == 0
    wait(lambda: not [t for t in tasks(account) if t["running"]], "nothing runs")
    (row,) = said(capsys, "list")["runs"]
    assert row["state"] == "cancelled"


@pytest.mark.essential
def test_logs_outlive_their_machine(account: AzureBatch, capsys: Capture) -> None:
    write("echo one; echo two")
    found = said(capsys, "apply", "job.yaml")["run"]
    pools = {
        node.rpartition("-")[0]: 0 for t in tasks(account) for node in t["attempts"][0]["nodes"]
    }
    assert pools
    for pool in account.world.pools.values():
        pool.nodes.clear()

    run(["logs", found])

    assert capsys.readouterr().out == "one\ntwo\n"


def printed(account: AzureBatch) -> str:
    """Give what the first task has printed where it is now."""
    folders = [Path(f) for t in tasks(account) for a in t["attempts"][-1:] for f in a["folders"]]
    return "".join(f.read_text() for p in folders for f in p.glob("stdout.txt"))


def test_a_machine_that_is_taken_away_is_told_and_the_job_goes_on(
    account: AzureBatch, capsys: Capture
) -> None:
    write(
        'echo "try $RUNSPEC_ATTEMPT"; test "$RUNSPEC_ATTEMPT" = 2 || sleep 60',
        cluster={"capacity": "spot"},
    )
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: printed(account), "a task prints")
    account.control("POST", "preempt", {"jobId": found, "taskId": "task-00000"})

    code = run(["logs", found, "--follow"])

    assert capsys.readouterr().out.endswith("try 2\n")  # of the first nothing may be kept
    status = said(capsys, "status", found)
    assert (code, status["state"]) == (0, "succeeded")
    (node,) = status["nodes"]
    assert [a["reclaimed"] for a in node["attempts"]] == [True, False]


def test_a_line_is_told_of_the_node_that_printed_it(account: AzureBatch, capsys: Capture) -> None:
    """While it runs, and afterwards; the service's own numbers of the nodes are others."""
    write("echo I am $RUNSPEC_RANK; sleep 3; echo and was $RUNSPEC_RANK", cluster={"nodes": 3})
    wanted = sorted(f"[node {n}] {text} {n}" for text in ("I am", "and was") for n in range(3))

    for words in (["apply", "job.yaml"], ["logs", "job"]):
        capsys.readouterr()
        assert run(words) == 0
        assert sorted(capsys.readouterr().out.splitlines()) == wanted


def test_no_key_and_no_signature_is_kept_here(
    account: AzureBatch, blobs: Blobs, capsys: Capture, tmp_path: Path
) -> None:
    write("echo hello")
    said(capsys, "apply", "job.yaml")

    kept = [p for p in tmp_path.rglob("*") if p.is_file() and "account" not in p.parts]
    home = [p for p in kept if b"sig=" in p.read_bytes() or blobs.key.encode() in p.read_bytes()]
    assert home == []


def client_of(tmp_path: Path) -> AzureClient:
    settings = json.loads(own_profile().read_text())["providers"]
    return AzureClient(BatchOptions.model_validate(settings["azure-batch"]))


def job_of(**more: Any) -> Request:
    own = {
        "id": "a-b",
        "poolInfo": {"poolId": "p"},
        "metadata": [{"name": "runspec", "value": "a"}],
    }
    return Request("batch", "Job_Add", {"body": {**own, **more}})


def pool_of() -> Request:
    machine = {
        "imageReference": {"publisher": "a", "offer": "b", "sku": "c", "version": "latest"},
        "nodeAgentSKUId": "batch.node.ubuntu 22.04",
    }
    body = {"id": "p", "vmSize": "Standard_D2s_v5", "virtualMachineConfiguration": machine}
    return Request("batch", "Pool_Add", {"body": body})


def test_an_existing_pool_or_job_is_used_only_if_runspec_made_it(
    account: AzureBatch, tmp_path: Path
) -> None:
    client = client_of(tmp_path)
    client.call(pool_of())
    client.call(job_of())

    for request, there in ((pool_of(), "p"), (job_of(), "a-b")):
        with pytest.raises(AlreadyExists):  # the engine looks for it then
            client.call(request)
        assert client.find(Step("s", "", Scope.RUN, request)) == {"id": there}
    other = job_of(metadata=[{"name": "runspec", "value": "b"}])
    with pytest.raises(Conflict, match="with a different metadata"):
        client.find(Step("s", "", Scope.RUN, other))


def test_a_collection_that_is_half_there_is_completed(account: AzureBatch, tmp_path: Path) -> None:
    def some(*names: str) -> Step:
        value = [{"id": name, "commandLine": "true"} for name in names]
        params = {"path": {"jobId": "a-b"}, "body": {"value": value}}
        return Step("tasks-0", "", Scope.RUN, Request("batch", "Task_AddCollection", params))

    client = client_of(tmp_path)
    client.call(pool_of())
    client.call(job_of())
    client.call(some("task-00000").do)

    assert client.find(some("task-00000", "task-00001")) is None
    assert (
        client.call(some("task-00000", "task-00001").do)
        == client.find(some("task-00000", "task-00001"))
        == {"tasks": 2}
    )
    assert len(tasks(account)) == 2


def test_two_tasks_of_a_sweep_share_a_machine_at_the_same_time(
    account: AzureBatch, capsys: Capture
) -> None:
    """Each waits for the other one: on machines of their own, both would end with 3."""
    text = """
        touch "$AZ_BATCH_NODE_ROOT_DIR/here-$RUNSPEC_SWEEP_N"
        for second in $(seq 60); do
          [ ! -e "$AZ_BATCH_NODE_ROOT_DIR/here-$((3 - RUNSPEC_SWEEP_N))" ] || exit 0
          sleep 1
        done
        exit 3
    """
    own = {"max_nodes": 1, "tasks_per_node": 2}
    write(text, sweep={"n": [1, 2]}, providers={"azure-batch": own})
    made = said(capsys, "apply", "job.yaml", "--detach")["run"]

    run(["logs", "--follow", made])
    capsys.readouterr()

    status = said(capsys, "status", made)
    assert [node["exit_code"] for node in status["nodes"]] == [0, 0]
    assert status["state"] == "succeeded"


def test_a_sweep_ends_with_the_first_task_that_has_lost_its_right_to_the_store(
    account: AzureBatch, capsys: Capture
) -> None:
    """One machine: the task before it ends with the same code of its own, and those after it never run."""
    text = 'echo "task $RUNSPEC_SWEEP_N"; [ $RUNSPEC_SWEEP_N = 1 ] && exit 77; sleep 14; exit 5'
    own = {"max_nodes": 1, "signed_for": "12s"}
    sweep = {"n": [1, 2, 3, 4]}
    write(text, sweep=sweep, max_parallel=1, providers={"azure-batch": own})
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]

    run(["logs", "--follow", found])
    shown = capsys.readouterr().out

    status = said(capsys, "status", found)
    assert (status["state"], status["exit_code"]) == ("failed", 77)
    assert status["reason"].startswith(
        "task 1 exited with code 77: the store refused the job's access"
    )
    assert [node["state"] for node in status["nodes"]] == ["failed", "failed", "waiting", "waiting"]
    assert [node["exit_code"] for node in status["nodes"][:2]] == [77, 77]
    assert shown.index("task 1") < shown.index("task 2")
    assert [len(t["attempts"]) for t in tasks(account)] == [1, 1, 0, 0]
    assert "it expired at" in shown


def test_destroy_leaves_nothing(account: AzureBatch, capsys: Capture) -> None:
    write("echo hello")
    found = said(capsys, "apply", "job.yaml")["run"]

    assert [run(["destroy", found]), run(["destroy", "--site"])] == [0, 0]

    assert (dict(account.world.jobs), dict(account.world.pools)) == ({}, {})


@pytest.mark.parametrize("count", [1, 8])
def test_an_idle_follower_asks_once_a_second(
    account: AzureBatch, capsys: Capture, count: int
) -> None:
    """By its own times: another process has not the quick ones of these tests. However many logs it has."""
    write("sleep 120", sweep={"n": list(range(count))})
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: [t["state"] for t in tasks(account)] == ["running"] * count, "all run", 60)
    follower = subprocess.Popen(
        [sys.executable, "-m", "runspec_jobs", "logs", "-f", found],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        before = len(calls(account))
        wait(lambda: len(calls(account)) > before + 3 + count, "it follows")
        since, began = len(calls(account)), time.monotonic()
        time.sleep(10 if count == 1 else 33)  # two rounds of eight
        asked, seconds = len(calls(account)) - since, time.monotonic() - began
    finally:
        follower.kill()
        follower.wait()

    assert 3 <= asked <= seconds + 1


def test_a_timeout_saves_and_counts_as_a_failed_attempt(
    account: AzureBatch, tmp_path: Path, capsys: Capture
) -> None:
    """The service would end the program without a signal, and make no other attempt."""
    write(
        "trap 'echo SIGTERM seen; exit 1' TERM\n"
        'echo x > "${outputs.o}/checkpoint"; echo "attempt $RUNSPEC_ATTEMPT"\n'
        "while :; do sleep 0.1; done",
        timeout="2s",
        retry={"attempts": 2},
        outputs=[{"name": "o", "path": "/job/o"}],
    )

    found = said(capsys, "apply", "job.yaml")

    assert (found["state"], found["exit_code"]) == ("failed", 124)
    assert found["reason"] == "timeout: not done after 2 s"
    (node,) = said(capsys, "status", "job")["nodes"]
    assert [one["exit_code"] for one in node["attempts"]] == [124, 124]
    run(["logs", "job"])
    assert "SIGTERM seen" in capsys.readouterr().out
    assert run(["fetch", "job", "got"]) == 0
    assert [p.name for p in (tmp_path / "got").rglob("*") if p.is_file()] == ["checkpoint"]


@pytest.mark.parametrize(
    "code", [75, *(pytest.param(code, marks=pytest.mark.matrix) for code in (77, 143))]
)
def test_the_exit_code_of_a_program_is_its_own(
    code: int, account: AzureBatch, capsys: Capture
) -> None:
    write(f"exit {code}")

    found = said(capsys, "apply", "job.yaml")

    assert (found["state"], found["exit_code"]) == ("failed", code)
    name = {143: " (SIGTERM)"}.get(code, "")
    assert found["reason"] == f"exited with code {code}{name}"
    assert len(said(capsys, "status", "job")["nodes"][0]["attempts"]) == 1
