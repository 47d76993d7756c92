"""A job of `az batchai` whose script lies in a container is rehearsed with a folder in that container's place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.errors import UsageError
from tests.support.requirements import need

pytestmark = pytest.mark.process

Capture = pytest.CaptureFixture[str]
JOB = {
    "properties": {
        "nodeCount": 1,
        "customToolkitSettings": {
            "commandLine": "sh $AZ_BATCHAI_JOB_MOUNT_ROOT/scripts/deep/hello.sh"
        },
        "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs",
        "mountVolumes": {
            "azureFileShares": [
                {
                    "azureFileUrl": "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/logs",
                    "relativeMountPath": "logs",
                }
            ],
            "azureBlobFileSystems": [
                {
                    "accountName": "<AZURE_BATCHAI_STORAGE_ACCOUNT>",
                    "containerName": "programs",
                    "credentials": {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"},
                    "relativeMountPath": "scripts",
                }
            ],
        },
    }
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("azurite")
    monkeypatch.chdir(tmp_path)
    Path("job.json").write_text(json.dumps(JOB))
    Path("mine/deep").mkdir(parents=True)
    Path("mine/deep/hello.sh").write_text("echo hello from a container\n")
    assert run(["import", "job.json", "--to", "."]) == 0
    assert run(["trust", "runspec-profile.yaml"]) == 0
    return tmp_path


def test_a_script_in_a_container_is_there_in_a_rehearsal(job: Path, capsys: Capture) -> None:
    code = run(["rehearse", "job.yaml", "--container", "programs=mine"])

    told = capsys.readouterr()
    assert code == 0, told.err
    assert "hello from a container" in told.out


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("programs", "NAME=FOLDER"),
        ("others=mine", "the job has no container 'others'"),
        ("programs=none", "is not a folder"),
    ],
)
def test_a_container_that_cannot_be_filled_is_refused(
    value: str, what: str, job: Path, capsys: Capture
) -> None:
    assert run(["rehearse", "job.yaml", "--container", value]) == UsageError.exit_code

    assert what in capsys.readouterr().err
