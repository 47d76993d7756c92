"""Runs that version 0.1.0 began on services: the present version shows, follows, fetches, cancels and destroys them.

tests/fixtures/v0 has what that version left, and its agent. Where a run goes on, the stand-in is asked again for what
the frozen plan says, word for word, so that the old agent runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from runspec_azure.batch import emulator, timing as azure_times
from runspec_emulators.aws.region import Region
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI
from runspec_emulators.slurm import Cluster
from runspec_jobs.cli.app import run
from runspec_jobs.state import run_record
from tests.support import old_versions
from tests.support.aws.emulated_account import BUCKET, REGION
from tests.support.azure.emulated_account import CONTAINER, blobs as blobs  # a fixture
from tests.support.old_versions import run_of, submitted_again, thawed
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS
from tests.support.wait import until

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]
KEPT = {
    "array": {f"task-{task}/out/a.txt": "kept\n" for task in range(3)},
    "elastic": {"out/step.txt": "3\n"},
    "ended": {"out/a.txt": "kept\n"},
    "failed": {"out/a.txt": "kept\n"},
}
BATCH_AI_KEY = "a-key-of-the-account"


def told(capsys: Capture, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def fetched(name: str) -> dict[str, str]:
    """Give what a run saved, by where it is below the folder that it is fetched into."""
    target = Path(f"{name}-fetched")
    assert run(["fetch", name, str(target)]) == 0
    files = (path for path in target.rglob("*") if path.is_file())
    return {str(path.relative_to(target)): path.read_text() for path in files}


class Old:
    """The runs of one provider. *stored* gives the keys that its store has, *put* replaces what is there."""

    def __init__(self, capsys: Capture, stored: Any, put: Any = None) -> None:
        self.capsys, self.stored, self.put = capsys, stored, put

    def state(self, name: str) -> str:
        return str(told(self.capsys, "status", name)["state"])

    def shows_what_has_ended(self) -> None:
        """The service has forgotten these runs by now."""
        rows = {row["name"]: row["state"] for row in told(self.capsys, "list")["runs"]}
        for name, kept in KEPT.items():
            assert rows[name] == ("failed" if name == "failed" else "succeeded")
            found = told(self.capsys, "status", name)
            assert found["exit_code"] == (3 if name == "failed" else 0)
            assert fetched(name) == kept
        (change,) = told(self.capsys, "status", "elastic")["changes"]
        assert (change["generation"], change["nodes"] >= 1) == (1, True)

    def destroys_what_has_ended(self) -> None:
        for name in KEPT:
            of = run_of(name)
            assert any(of in key for key in self.stored())
            assert run(["cancel", name]) == 0
            assert run(["destroy", name]) == 0
            assert not [key for key in self.stored() if of in key]

    def goes_on(self) -> None:
        """The old agent saves anew, and what it saves and prints is seen while it runs."""
        name = run_of("running")
        submitted_again("running")
        until(lambda: self.state("running") == "running")
        until(lambda: any(key.endswith("manifest.json") for key in self.stored() if name in key))
        assert fetched("running") == {"out/a.txt": "kept\n"}
        self.says(f"hello from {name}\n")

    def says(self, text: str) -> None:
        def said() -> bool:
            self.capsys.readouterr()
            assert run(["logs", "running"]) == 0
            return self.capsys.readouterr().out == text

        until(said)

    def is_cancelled_and_destroyed(self, name: str) -> None:
        of = run_of(name)
        assert run(["cancel", name]) == 0
        assert self.state(name) == "cancelled"
        assert run(["destroy", name]) == 0
        assert not [key for key in self.stored() if of in key]

    def refuses_a_newer_record(self) -> None:
        """The run is told as such, the others are as they were, and nothing of it is touched."""
        of = run_of("running")
        (key,) = [key for key in self.stored() if key.endswith(f"{of}/record.json")]
        self.put(key, b'{"format": "runspec.run/v9", "steps": 5}')
        before = self.stored()
        wrong = f"the record of {of}: a newer version of runspec wrote it"

        for verb in ("status", "cancel", "destroy"):
            self.capsys.readouterr()
            assert run([verb, of]) == 69, verb
            said = self.capsys.readouterr().err
            assert wrong in said and "hint: upgrade runspec" in said, verb
        rows = {row["run"]: row for row in told(self.capsys, "list")["runs"]}
        assert rows[of]["state"] == "unreadable"
        assert rows[of]["reason"].startswith(wrong)
        assert rows[run_of("ended")]["state"] == "succeeded"
        assert self.stored() == before


# AWS Batch


@pytest.fixture
def aws(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> Iterator[Old]:
    """Give the runs, and the bucket as they left it."""
    home = thawed("aws-batch", tmp_path, {"@BOOT_PY@": old_versions.boot_text()}) / "home"
    monkeypatch.setenv("RUNSPEC_HOME", str(home))
    s3: Any = boto3.client("s3", region_name=REGION)

    def keys() -> list[str]:
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix="v0/").get("Contents", ())
        return [one["Key"] for one in found]

    for key, content in old_versions.stored("aws-batch").items():
        s3.put_object(Bucket=BUCKET, Key=key, Body=content)
    yield Old(capsys, keys, lambda key, body: s3.put_object(Bucket=BUCKET, Key=key, Body=body))
    for key in keys():
        s3.delete_object(Bucket=BUCKET, Key=key)


def of_then(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next job get the id that the journal of a run has."""
    job = run_record.find(name).read_memory().answers["job"]["jobId"]
    ids = SimpleNamespace(uuid4=lambda: job)
    monkeypatch.setattr("runspec_emulators.aws.batch.submit.uuid", ids)


def unsaved(name: str) -> None:
    """Take from the bucket what a run had saved: its agent saves it anew."""
    s3: Any = boto3.client("s3", region_name=REGION)
    prefix = f"v0/runs/{run_of(name)}/outputs/"
    for one in s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=one["Key"])


def test_what_has_ended_on_aws_is_shown_and_destroyed(aws: Old) -> None:
    aws.shows_what_has_ended()
    aws.destroys_what_has_ended()


def test_a_run_on_aws_goes_on_with_its_agent(aws: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    of_then("running", monkeypatch)
    unsaved("running")

    aws.goes_on()

    aws.is_cancelled_and_destroyed("running")


def test_a_run_on_aws_that_waits_is_cancelled(
    aws: Old, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_then("waiting", monkeypatch)
    region.control("PUT", "settings", {"capacity": "none"})

    submitted_again("waiting")

    assert aws.state("waiting") == "waiting"
    aws.is_cancelled_and_destroyed("waiting")


def test_a_record_of_a_newer_version_on_aws_is_refused_in_words(aws: Old) -> None:
    aws.refuses_a_newer_record()


# Azure Batch


class Azure(Old):
    def __init__(self, capsys: Capture, account: AzureBatch, container: Any) -> None:
        super().__init__(
            capsys,
            lambda: [one.name for one in container.list_blobs("v0/")],
            lambda key, body: container.upload_blob(key, body, overwrite=True),
        )
        self.account, self.container = account, container


@pytest.fixture
def azure(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> Iterator[Azure]:
    """Give the runs, an account, and the container as they left it."""
    from azure.storage.blob import BlobServiceClient

    quick = azure_times.Timing(poll_s=0.2, fresh_s=0.2, slow_s=0.2)
    monkeypatch.setattr(azure_times, "DEFAULT", quick)
    with AzureBatch(
        tmp_path / "account", emulator.ACCOUNT, machine_env={"RUNSPEC_BELOW": "."}
    ) as account:
        marks = {
            "@BOOT_PY@": old_versions.boot_text(),
            "@BATCH@": account.url,
            "@BLOBS@": blobs.url,
        }
        home = thawed("azure-batch", tmp_path, marks) / "home"
        monkeypatch.setenv("RUNSPEC_HOME", str(home))
        monkeypatch.setenv(emulator.BATCH_KEY, account.key)
        monkeypatch.setenv(emulator.STORAGE_KEY, blobs.key)
        monkeypatch.chdir(tmp_path)
        login = {"account_name": blobs.account, "account_key": blobs.key}
        container = BlobServiceClient(blobs.url, credential=login).get_container_client(CONTAINER)
        for key, content in old_versions.stored("azure-batch").items():
            container.upload_blob(key, content, overwrite=True)
        yield Azure(capsys, account, container)
        for one in container.list_blobs("v0/"):
            container.delete_blob(one.name)


def test_what_has_ended_on_azure_is_shown_and_destroyed(azure: Azure) -> None:
    azure.shows_what_has_ended()
    azure.destroys_what_has_ended()


def test_a_run_on_azure_goes_on_with_its_agent(azure: Azure) -> None:
    for key in azure.stored():
        if f"{run_of('running')}/outputs/" in key:
            azure.container.delete_blob(key)

    azure.goes_on()

    azure.is_cancelled_and_destroyed("running")


def test_a_run_on_azure_that_waits_is_cancelled(azure: Azure) -> None:
    azure.account.control("PUT", "settings", {"active_s": 3600.0})

    submitted_again("waiting")

    assert azure.state("waiting") == "waiting"
    azure.is_cancelled_and_destroyed("waiting")


def test_a_record_of_a_newer_version_on_azure_is_refused_in_words(azure: Azure) -> None:
    azure.refuses_a_newer_record()


# Slurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Iterator[Old]:
    """Give the runs, the workspace as they left it, and a Slurm whose next job is the one that goes on."""
    need(*PROGRAMS)
    folder = thawed("slurm", tmp_path)
    monkeypatch.setenv("RUNSPEC_HOME", str(folder / "home"))
    monkeypatch.chdir(tmp_path)
    agent = folder / "store" / old_versions.AGENT_KEY
    agent.parent.mkdir(exist_ok=True)
    agent.write_bytes(old_versions.AGENT)
    job = (folder / "store/runs" / run_of("running") / "job").read_text()
    with Cluster(tmp_path / "cluster", prolog=True, more={"FirstJobId": job}) as cluster:
        for name, value in cluster.env.items():
            monkeypatch.setenv(name, value)
        store = folder / "store"
        yield Old(
            capsys,
            lambda: sorted(str(p.relative_to(store)) for p in store.rglob("*") if p.is_file()),
            lambda key, body: (store / key).write_bytes(body),
        )
        cluster.cancel()


def test_what_has_ended_on_slurm_is_shown_and_destroyed(slurm: Old) -> None:
    slurm.shows_what_has_ended()
    for name in KEPT:
        if name != "elastic":
            assert run(["logs", name]) == 0
            assert f"hello from {run_of(name)}" in slurm.capsys.readouterr().out
    slurm.destroys_what_has_ended()


def test_a_run_on_slurm_goes_on_with_its_agent(slurm: Old, tmp_path: Path) -> None:
    folder = tmp_path / "slurm/store/runs" / run_of("running")
    for name in ("claim", "job", "logs/0-0.txt", "outputs/out/0/0/.runspec/manifest.json"):
        (folder / name).unlink()

    slurm.goes_on()

    slurm.is_cancelled_and_destroyed("running")


def test_a_record_of_a_newer_version_on_slurm_is_refused_in_words(slurm: Old) -> None:
    slurm.refuses_a_newer_record()


# Azure Batch AI


@pytest.fixture
def batch_ai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Iterator[Old]:
    with BatchAI(tmp_path / "cloud", accounts={"acct": BATCH_AI_KEY}) as stand:
        home = thawed("azure-batch-ai", tmp_path, {"@ARM@": stand.url}) / "home"
        for name, value in {**stand.env, "STORAGE_KEY": BATCH_AI_KEY}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RUNSPEC_HOME", str(home))
        monkeypatch.chdir(tmp_path)
        yield Old(capsys, list)


def test_runs_of_batch_ai_are_shown_and_destroyed(batch_ai: Old) -> None:
    rows = {row["name"]: row["state"] for row in told(batch_ai.capsys, "list")["runs"]}
    assert (rows["ended"], rows["failed"]) == ("succeeded", "failed")
    assert told(batch_ai.capsys, "status", "failed")["exit_code"] == 3

    submitted_again("running")
    until(lambda: batch_ai.state("running") == "running")
    batch_ai.says("hello\n")
    batch_ai.is_cancelled_and_destroyed("running")

    for name in ("ended", "failed"):
        assert run(["destroy", name]) == 0
    assert told(batch_ai.capsys, "list")["runs"] == []
