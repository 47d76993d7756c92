"""An account of Azure that is nobody's, a spec for it, and what the rehearsed service knows of its tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runspec_azure.batch import emulator, timing
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from tests.support.profiles import own_profile
from tests.support.requirements import need

Capture = pytest.CaptureFixture[str]
CONTAINER = "rehearsal"


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("azurite")
    found = Blobs(tmp_path_factory.mktemp("blobs"))
    found.make_container(CONTAINER)
    yield found
    found.close()


def prepared(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> Iterator[AzureBatch]:
    """Give an account with an empty folder, a profile, and quick waits."""
    more = more or {"machine_env": {"RUNSPEC_BELOW": "."}}
    quick = replace(timing.DEFAULT, poll_s=0.2, fresh_s=0.2, slow_s=0.2)
    monkeypatch.setattr(timing, "DEFAULT", quick)
    with AzureBatch(tmp_path / "account", emulator.ACCOUNT, **more) as found:
        monkeypatch.setenv(emulator.BATCH_KEY, found.key)
        monkeypatch.setenv(emulator.STORAGE_KEY, blobs.key)
        monkeypatch.chdir(tmp_path)
        ways = emulator.ways(found.url, blobs.url, blobs.account)
        settings = {"container": CONTAINER, **ways, "prefix": tmp_path.name}
        text = json.dumps({"providers": {"azure-batch": settings}})
        own_profile().write_text(text)
        yield found


def write(text: str, **fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "azure-batch", "run": text}
    Path("job.yaml").write_text(json.dumps({**spec, **fields}))
    return "job.yaml"


def said(capsys: Capture, *words: str) -> Any:
    """Give what a command says with --json."""
    capsys.readouterr()
    run([*words, "--json"])
    return json.loads(capsys.readouterr().out)


def calls(account: AzureBatch, operation: str | None = None) -> list[dict[str, Any]]:
    found = account.control("GET", "calls")
    return [call for call in found if operation in (None, call["operation"])]


def tasks(account: AzureBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.control("GET", "tasks")
    return found


def wait(done: Callable[[], Any], what: str, limit_s: float = 90.0) -> Any:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := done():
            return found
        time.sleep(0.05)
    raise AssertionError(f"never: {what}")
