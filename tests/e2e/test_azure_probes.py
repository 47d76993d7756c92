"""`runspec doctor azure-batch --probe`, against an account that behaves as believed, and against one that does not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.probes import jobs, store
from runspec_azure.batch.probes.beliefs import probes
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.autoscale import formula
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_batch.model import Task
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_batch.service import OPERATIONS
from runspec_emulators.azure_batch.tasks import files
from runspec_emulators.azure_batch.tasks.runner import Runner
from runspec_emulators.azure_batch.world import World
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from runspec_jobs.state import probe_leftovers
from tests.support.azure.emulated_account import Capture, blobs as blobs, calls, prepared
from tests.support.wait import until

pytestmark = pytest.mark.slow
ALL = {probe.id: "confirmed" for probe in probes(BatchOptions())}


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    monkeypatch.setattr(jobs, "PAUSE_S", 0.1)
    monkeypatch.setattr(probe_leftovers, "PAUSE_S", 0.1)
    yield from prepared(blobs, tmp_path, monkeypatch, enable_s=30.0)


def probed(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    run(["doctor", "azure-batch", "--probe", "--yes", "--json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["verdict"] for row in found["probes"]}


def left(capsys: Capture) -> list[str]:
    """Return what there is in the account with our name on it."""
    capsys.readouterr()
    run(["gc", "azure-batch", "--json"])
    return [row["what"] for row in json.loads(capsys.readouterr().out)["orphans"]]


def test_probes_confirm_true_assumptions_and_leave_nothing(
    account: AzureBatch, capsys: Capture
) -> None:
    found = probed(capsys)

    assert verdicts(found) == ALL, [r for r in found["probes"] if r["verdict"] != "confirmed"]
    assert found["left"] == left(capsys) == []
    assert probe_leftovers.list_sessions("azure-batch") == []


def test_blobs_that_overlook_conditions_and_rights_are_seen(
    account: AzureBatch, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Conditions are lost on the way, every signature has all rights, and a block is a blob at once."""
    sent, made = store.http, store.url_of

    def bare(method: str, url: str, headers: dict[str, str], body: bytes = b"") -> Any:
        kept = {name: value for name, value in headers.items() if not name.startswith("If-")}
        blob, comp, _ = url.partition("&comp=block&")
        return sent(method, blob, kept | (store.BLOCK if comp else {}), body)

    monkeypatch.setattr(store, "http", bare)
    monkeypatch.setattr(store, "url_of", lambda client, key, rights="": made(client, key))

    found = probed(capsys, "--only", "azure-2,azure-3,azure-4,azure-9")

    assert set(verdicts(found).values()) == {"refuted"}, found
    assert left(capsys) == []


def test_a_service_that_behaves_otherwise_is_seen(
    account: AzureBatch, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """It knows no time(), takes formulas at any time, and leaves alone what waits."""
    account.control("PUT", "settings", {"enable_s": 0.0, "autoscale_s": 3600.0})
    monkeypatch.delitem(formula.FUNCTIONS, "time")
    monkeypatch.setattr(jobs, "SHOWN_S", 2.0)
    ending = Runner.terminate

    def terminate(self: Runner, task: Task) -> None:
        if task.attempt is not None:
            ending(self, task)

    monkeypatch.setattr(Runner, "terminate", terminate)

    found = probed(capsys, "--only", "azure-20,azure-21,azure-23,azure-24")

    assert set(verdicts(found).values()) == {"refuted"}, found
    assert left(capsys) == []


def test_files_that_come_whole_whatever_part_is_asked_for_are_seen(
    account: AzureBatch, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def whole(world: World, request: Request) -> Response:
        path, url = files.find_file(world, request)
        return Response(200, path.read_bytes(), files.headers(path, url))

    monkeypatch.setitem(OPERATIONS, "File_GetFromTask", whole)

    found = probed(capsys, "--only", "azure-25,azure-26")

    assert set(verdicts(found).values()) == {"refuted"}, found


@pytest.mark.parametrize(
    "way", ["probe", "gc", pytest.param("elsewhere", marks=pytest.mark.matrix)]
)
def test_the_next_session_deletes_what_a_killed_one_made(
    account: AzureBatch, capsys: Capture, way: str
) -> None:
    account.control("PUT", "settings", {"node_s": 3600.0})
    probing = ["doctor", "azure-batch", "--probe", "--yes", "--only", "azure-2,azure-25"]
    process = subprocess.Popen(
        [sys.executable, "-m", "runspec_jobs", *probing], stderr=subprocess.PIPE
    )
    try:
        until(lambda: calls(account, "Task_AddCollection"))
    finally:
        process.kill()
        process.communicate()
    assert len(left(capsys)) > 3

    again = ["doctor", "azure-batch", "--probe", "--yes", "--only", "azure-2"]
    words = {"probe": again, "gc": ["gc", "azure-batch", "--yes"]}
    if way == "elsewhere":  # by names and metadata alone
        shutil.rmtree(probe_leftovers.find_file("azure-batch"))
        words[way] = ["gc", "azure-batch", "--yes", "--alive"]
    code = run(words[way])

    assert code == 0
    assert left(capsys) == []
    assert probe_leftovers.list_sessions("azure-batch") == []
