"""Azure Batch and Blob storage without any key: by whoever is logged in, over https, on this machine."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.options import BatchOptions
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.store import Store
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.azure_services.identity import Identity
from runspec_jobs.cli.app import run
from runspec_jobs.load.bundle import bundle
from tests.support.azure.emulated_account import CONTAINER, Capture, said, tasks, wait, write
from tests.support.azure.login import (
    JOB,
    SECRET,
    SUBSCRIPTION,
    TEXT,
    account as account,  # a fixture
    change,
    identity as identity,  # a fixture
    profile,
)
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow


def signature(account: AzureBatch) -> str:
    """Give the signature that the last job has in its environment."""
    job = list(account.world.jobs.values())[-1]
    settings = {e["name"]: e["value"] for e in job.body["commonEnvironmentSettings"]}
    return str(settings["RUNSPEC_SAS"])


def test_a_job_runs_and_is_taken_away_without_any_key(
    account: AzureBatch, identity: Identity, tmp_path: Path, capsys: Capture
) -> None:
    Path("code").mkdir()
    Path("code/words").write_text("hello\n")
    write(TEXT, **JOB)

    found = said(capsys, "apply", "job.yaml")
    run(["logs", found["run"]])
    printed = capsys.readouterr().out
    code = run(["fetch", found["run"], "out"])

    assert (found["state"], printed, code) == ("succeeded", "hello\n", 0)
    assert (tmp_path / "out/model/weights").read_text() == "hello\n"
    words = {k: v[0] for k, v in parse_qs(signature(account)).items()}
    assert (words["skoid"], words["sktid"]) == (identity.tokens.person, identity.tokens.tenant)
    assert words["se"] < words["ske"]
    assert {one.resource.rstrip("/") for one in identity.asked} == {
        "https://batch.core.windows.net",
        "https://storage.azure.com",
    }
    assert [run(["destroy", found["run"]]), run(["destroy", "--site"])] == [0, 0]
    assert (dict(account.world.jobs), dict(account.world.pools)) == ({}, {})


def test_a_signature_ends_before_its_key_and_no_key_lasts_longer_than_a_week(
    account: AzureBatch, capsys: Capture
) -> None:
    write("echo hello")

    said(capsys, "apply", "job.yaml")

    words = {k: v[0] for k, v in parse_qs(signature(account)).items()}
    ends, key_ends = (datetime.fromisoformat(words[k]) for k in ("se", "ske"))
    now = datetime.now(UTC)
    assert now + timedelta(days=6.9) < ends < key_ends < now + timedelta(days=7)


def test_tokens_that_end_in_the_middle_of_a_run_are_renewed(
    account: AzureBatch, identity: Identity, capsys: Capture
) -> None:
    identity.tokens.lasts_s = 2
    write("for n in 1 2 3 4 5 6 7 8 9; do echo $n; sleep 0.5; done > ${outputs.model}/n", **JOB)
    Path("code").mkdir()

    found = said(capsys, "apply", "job.yaml")
    code = run(["fetch", found["run"], "out"])

    assert (found["state"], code) == ("succeeded", 0)
    for resource in ("https://batch.core.windows.net/", "https://storage.azure.com"):
        given = [one.token for one in identity.asked if one.resource == resource]
        assert len(given) > 2
        assert not identity.tokens.good(given[0], resource)


def test_a_token_that_ends_in_the_middle_of_an_upload_is_renewed(
    account: AzureBatch, identity: Identity
) -> None:
    identity.tokens.lasts_s = 2
    whole = 40 << 20
    Path("large").mkdir()
    with Path("large/file").open("wb") as file:
        file.truncate(whole)
    known = json.loads(own_profile().read_text())["providers"]["azure-batch"]
    blobs = AzureClient(BatchOptions.model_validate(known)).blobs
    waits = [3.0]

    def slowly(done: int, _: int) -> None:
        if done > whole // 2 and waits:
            time.sleep(waits.pop())  # the first token has ended by then

    blobs.put_folder(blobs.key("large"), bundle(Path("large")), slowly)

    first = identity.asked[0].token
    assert not identity.tokens.good(first, "https://storage.azure.com")
    assert waits == []
    assert (blobs.size(blobs.key("large")) or 0) > whole


def test_a_login_for_something_else_is_refused_and_said(
    account: AzureBatch, identity: Identity, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("echo hello")
    give = identity.tokens.give
    monkeypatch.setattr(identity.tokens, "give", lambda what, who: give("https://other.net", who))

    code = run(["apply", "job.yaml"])

    told = capsys.readouterr().err
    assert code == 5
    assert "log in again" in told
    assert not [one.token for one in identity.asked if one.token in told]


def test_no_token_is_sent_in_the_open(account: AzureBatch, capsys: Capture) -> None:
    for option in ("batch_url", "blob_url"):
        write("echo hello")
        known = json.loads(own_profile().read_text())["providers"]["azure-batch"]
        change(**{option: known[option].replace("https:", "http:")})

        code = run(["apply", "job.yaml"])

        assert (code, "is not encrypted" in capsys.readouterr().err) == (2, True), option
        profile(known)


def hidden(account: AzureBatch, encrypted: Blobs, identity: Identity) -> list[str]:
    """Give all that nobody may read: keys, signatures as they are and as they are in URLs, tokens."""
    bodies = [job.body for job in account.world.jobs.values()]
    bodies += [task.body for job in account.world.jobs.values() for task in job.tasks.values()]
    queries = [word for word in json.dumps(bodies).split('"') if "sig=" in word]
    signed = {parse_qs(query.rpartition("?")[2])["sig"][0] for query in queries}
    assert signed
    tokens = [one.token for one in identity.asked]
    return [account.key, encrypted.key, SECRET, *signed, *map(quote, signed), *tokens]


def shown(pids: Iterator[Path]) -> Iterator[tuple[str, str]]:
    """Give the words that each process was started with, and whose they are."""
    for place in pids:
        try:
            yield str(place), (place / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has ended


def kept(account: AzureBatch) -> Iterator[tuple[str, str]]:
    """Give the content of every file of ours, and its name."""
    for folder in (Path.cwd(), Path(os.environ["RUNSPEC_HOME"])):
        for file in folder.rglob("*"):
            if file.is_file() and account.settings.folder not in file.parents:
                yield str(file), file.read_bytes().decode(errors="replace")


@pytest.mark.parametrize("keys", [True, False], ids=["keys", "login"])
def test_no_key_signature_or_token_is_in_what_is_kept_said_or_started(
    keys: bool,
    account: AzureBatch,
    encrypted: Blobs,
    identity: Identity,
    capsys: Capture,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    for name, value in (("BATCH", account.key), ("STORAGE", encrypted.key), ("HF", SECRET)):
        monkeypatch.setenv(name, value)
    change(secrets={"hf": "env:HF"})
    if keys:
        change(batch_key="env:BATCH", storage_key="env:STORAGE")
    Path("code").mkdir()
    job: dict[str, Any] = {**JOB, "secrets": {"HF": "hf"}}
    write(f'test -n "$HF"; while test ! -e {Path.cwd()}/go; do sleep 0.1; done; exit 3', **job)

    codes = [run(["plan", "job.yaml"]), run(["plan", "job.yaml", "--json"])]
    codes.append(run(["apply", "job.yaml", "--detach"]))
    wait(lambda: [t for t in tasks(account) if t["state"] == "running"], "a task runs")
    time.sleep(0.5)  # the program in it, too
    started = list(shown(Path("/proc").glob("[0-9]*")))
    Path("go").touch()
    codes += [run(["logs", "job", "--follow"]), run(["status", "job", "--json"])]
    found = hidden(account, encrypted, identity)
    account.control("PUT", "faults", [{"operation": "Job_Delete", "kind": "error-after"}])
    codes += [run(["destroy", "job"]), run(["destroy", "job"])]
    told = capsys.readouterr()

    assert codes[:4] == [0, 0, 0, 1], told.err
    assert [word for word in started if "inside.pyz" in word[1]]
    said_ = [("stdout", told.out), ("stderr", told.err), ("a log", caplog.text)]
    where = [*started, *kept(account), *said_]
    assert [(name, one[:9]) for name, text in where for one in found if one in text] == []


def test_doctor_says_whether_the_login_may_sign_for_jobs(
    account: AzureBatch, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = run(["doctor", "azure-batch"])

    told = capsys.readouterr()
    assert (code, "the login can sign URLs for jobs" in told.out) == (0, True), told

    def refused(*_: object, **__: object) -> None:
        raise HttpResponseError("AuthorizationPermissionMismatch")

    monkeypatch.setattr(BlobServiceClient, "get_user_delegation_key", refused)
    code = run(["doctor", "azure-batch"])

    told = capsys.readouterr()
    assert (code != 0, "Storage Blob Delegator" in told.out + told.err) == (True, True)


def test_files_for_batch_ai_go_by_the_login_where_a_vault_has_the_key(
    account: AzureBatch, encrypted: Blobs, identity: Identity
) -> None:
    profile = {
        "subscription": SUBSCRIPTION,
        "storage_account": encrypted.account,
        "blob_url": encrypted.url,
        "container": CONTAINER,
        "prefix": "batchai",
        "secrets": {
            "storage-key": f"azure-kv:/v#https://v.vault.azure.net/secrets/{encrypted.account}"
        },
    }
    store = Store(BatchAiOptions.model_validate(profile))

    store.blobs.put("batchai/a", b"hello")

    assert store.blobs.part("batchai/a", 0, None) == b"hello"
    assert {one.resource.rstrip("/") for one in identity.asked} == {"https://storage.azure.com"}
