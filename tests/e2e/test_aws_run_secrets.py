"""Secrets of the caller's shell on AWS Batch, rehearsed: Secrets Manager has them for one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_aws.client import AwsClient
from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from runspec_jobs.provider import Request, Response
from tests.support.aws.emulated_account import (
    BUCKET,
    REGION,
    Capture,
    await_job,
    calls,
    ended,
    left,
    write,
)

pytestmark = pytest.mark.slow
VALUE = "s3cret-it's"
SECRETS = {"secrets": {"TOKEN": {"from": "caller"}}}


@pytest.fixture(autouse=True)
def _shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)


def kept(folder: Path) -> list[dict[str, Any]]:
    """Return the secrets of runs at the store of *folder*: tests share one Secrets Manager."""
    own = {"Key": "runspec:store", "Value": f"s3://{BUCKET}/{folder.name}"}
    found = boto3.client("secretsmanager", REGION).list_secrets()["SecretList"]
    return [secret for secret in found if own in secret.get("Tags", ())]


def logged(name: str, capsys: Capture) -> str:
    capsys.readouterr()
    assert run(["logs", name]) == 0
    return capsys.readouterr().out


def test_a_run_has_its_secret_and_nothing_else_has_its_value(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    found = ended(capsys, write('echo "${#TOKEN} ${TOKEN%%-*}"', **SECRETS))

    assert found["state"] == "succeeded"
    assert logged("job", capsys) == f"{len(VALUE)} s3cret\n"
    [secret] = kept(tmp_path)
    assert secret["Name"] == f"runspec/{found['run']}/TOKEN"
    assert {t["Key"]: t["Value"] for t in secret["Tags"]}["runspec:run"] == found["run"]
    assert VALUE not in json.dumps(calls(region))
    written = [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "job.yaml"]
    assert not [p for p in written if VALUE.encode() in p.read_bytes()]
    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--shared", "--yes"]) == 0
    assert kept(tmp_path) == []
    assert left(region, tmp_path) == []


def test_an_apply_that_goes_on_stores_the_value_of_now(
    region: Region, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the value before was stored cannot be known: the request was sent, and its answer is lost."""
    send = AwsClient.send

    def killed(self: AwsClient, request: Request) -> Response:
        answer = send(self, request)
        if request.operation == "put_secret_value":
            raise KeyboardInterrupt
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(AwsClient, "send", killed)
        run(["apply", write('echo "$TOKEN"', **SECRETS)])
    monkeypatch.setenv("TOKEN", "another")
    found = ended(capsys, "job.yaml")

    assert found["state"] == "succeeded"
    assert logged("job", capsys) == "another\n"
    assert len(kept(tmp_path)) == 1


def test_the_next_run_has_a_secret_of_its_own(
    region: Region, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(capsys, write('echo "$TOKEN"; exit 1', **SECRETS))
    monkeypatch.setenv("TOKEN", "another")

    found = ended(capsys, "job.yaml")

    assert logged(found["run"], capsys) == "another\n"
    assert len(kept(tmp_path)) == 2


def test_gc_deletes_secrets_of_runs_without_a_record(
    region: Region, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has the name alone, or belongs to another bucket, is somebody else's."""
    run(["apply", write("sleep 60", **SECRETS), "--detach"])
    await_job(region)
    theirs = boto3.client("secretsmanager", REGION)
    theirs.create_secret(Name="runspec/mine", SecretString="x")
    tags = {"runspec:run": "other-a1b2c3", "runspec:store": "s3://other/runs"}
    theirs.create_secret(
        Name="runspec/other-a1b2c3/TOKEN",
        SecretString="x",
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))

    assert run(["gc", "aws-batch", "--yes"]) == 0
    spared = len(kept(tmp_path))
    assert run(["gc", "aws-batch", "--yes", "--alive"]) == 0

    assert spared == 1
    assert kept(tmp_path) == []
    for name in ("runspec/mine", "runspec/other-a1b2c3/TOKEN"):
        assert theirs.describe_secret(SecretId=name)["Name"] == name
        theirs.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


def test_another_machine_adopts_the_run_and_deletes_its_secret(
    region: Region, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ended(capsys, write('echo "$TOKEN"', **SECRETS))
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    monkeypatch.delenv("TOKEN")

    assert run(["adopt", "aws-batch", found["run"]]) == 0
    assert run(["destroy", found["run"]]) == 0

    assert kept(tmp_path) == []


def test_a_variable_that_is_not_set_ends_before_anything_is_made(
    region: Region, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOKEN")

    assert run(["apply", write("echo hi", **SECRETS)]) == 5

    assert kept(tmp_path) == []
    assert left(region, tmp_path) == []
    assert "export TOKEN" in capsys.readouterr().err
