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

from runspec.cli.main import run
from runspec.provider import Conflict, Request, Scope, Step
from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.options import BatchOptions
from runspec_rehearsal.azure.batch.server import AzureBatch
from runspec_rehearsal.azure.blob import Blobs
from tests.e2e import azure
from tests.e2e.azure import CONTAINER, Capture, calls, said, tasks, wait, write
from tests.needs import need

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("azurite")
    found = Blobs(tmp_path_factory.mktemp("blobs"))
    found.make_container(CONTAINER)
    yield found
    found.close()


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    yield from azure.prepared(blobs, tmp_path, monkeypatch)


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


def test_a_cancelled_run_ends_and_says_so(account: AzureBatch, capsys: Capture) -> None:
    write("echo begun; sleep 60")
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: [t for t in tasks(account) if t["state"] == "running"], "a task runs")

    code = run(["cancel", found])

    assert code == 0
    wait(lambda: not [t for t in tasks(account) if t["running"]], "nothing runs")
    (row,) = (
        said(capsys, "list")["runs"]
        if isinstance(said(capsys, "list"), dict)
        else said(capsys, "list")
    )
    assert row["state"] == "cancelled"


def test_what_was_printed_outlives_its_machine(account: AzureBatch, capsys: Capture) -> None:
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


def test_no_key_and_no_signature_is_kept_here(
    account: AzureBatch, blobs: Blobs, capsys: Capture, tmp_path: Path
) -> None:
    write("echo hello")
    said(capsys, "apply", "job.yaml")

    kept = [p for p in tmp_path.rglob("*") if p.is_file() and "account" not in p.parts]
    home = [p for p in kept if b"sig=" in p.read_bytes() or blobs.key.encode() in p.read_bytes()]
    assert home == []


def client_of(tmp_path: Path) -> AzureClient:
    settings = json.loads((tmp_path / "runspec-profile.yaml").read_text())["providers"]
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


def test_what_is_there_by_our_name_is_taken_if_it_is_ours(
    account: AzureBatch, tmp_path: Path
) -> None:
    client = client_of(tmp_path)
    client.call(pool_of())
    client.call(job_of())

    assert client.call(pool_of()) == {"id": "p"}
    assert client.call(job_of()) == {"id": "a-b"}
    with pytest.raises(Conflict, match="its metadata is another"):
        client.call(job_of(metadata=[{"name": "runspec", "value": "b"}]))


def test_a_collection_that_is_half_there_is_completed(account: AzureBatch, tmp_path: Path) -> None:
    def some(*names: str) -> Step:
        value = [{"id": name, "commandLine": "true"} for name in names]
        params = {"path": {"jobId": "a-b"}, "body": {"value": value}}
        return Step("tasks-0", "", Scope.RUN, Request("batch", "Task_AddCollection", params))

    client = client_of(tmp_path)
    client.call(pool_of())
    client.call(job_of())
    client.call(some("t1").do)

    assert client.find(some("t1", "t2")) is None
    assert client.call(some("t1", "t2").do) == client.find(some("t1", "t2")) == {"tasks": 2}
    assert len(tasks(account)) == 2


def test_destroy_leaves_nothing(account: AzureBatch, capsys: Capture) -> None:
    write("echo hello")
    found = said(capsys, "apply", "job.yaml")["run"]

    assert [run(["destroy", found]), run(["destroy", "--site"])] == [0, 0]

    assert (dict(account.world.jobs), dict(account.world.pools)) == ({}, {})


def test_an_idle_follower_asks_once_a_second(account: AzureBatch, capsys: Capture) -> None:
    """By its own times: another process has not the quick ones of these tests."""
    write("echo begun; sleep 120")
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: [t for t in tasks(account) if t["state"] == "running"], "a task runs")
    follower = subprocess.Popen(
        [sys.executable, "-m", "runspec", "logs", "-f", found],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        before = len(calls(account))
        wait(lambda: len(calls(account)) > before + 6, "it follows")
        since, began = len(calls(account)), time.monotonic()
        time.sleep(10)
        asked, seconds = len(calls(account)) - since, time.monotonic() - began
    finally:
        follower.kill()
        follower.wait()

    assert 3 <= asked <= seconds + 1
