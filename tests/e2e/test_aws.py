"""AWS Batch, rehearsed: real jobs as processes of this machine, driven by the command line alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import (
    Capture,
    calls,
    jobs,
    left,
    write,
)

pytestmark = pytest.mark.slow


@pytest.mark.essential
def test_the_walk_through_is_one_file_and_one_command(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """Entities, a GPU definition, a submission that is waited for, its log, and a model in S3."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train_mnist.py").write_text(
        "import os, sys\nprint('epoch 1 accuracy 0.97')\n"
        "open(os.path.join(sys.argv[1], 'lenet-0001.params'), 'wb').write(b'model')\n"
    )
    job = write(
        "python3 ${mounts.code}/train_mnist.py ${outputs.model}",
        cluster={"cpus": 4, "memory": "14GiB", "gpus": 1, "gpu_type": "T4"},
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "model", "path": "/job/model"}],
    )

    assert run(["apply", job]) == 0

    assert "epoch 1 accuracy 0.97" in capsys.readouterr().out
    assert run(["fetch", "job", "out"]) == 0
    assert (tmp_path / "out" / "model" / "lenet-0001.params").read_bytes() == b"model"
    made = calls(region, "RegisterJobDefinition")[0]["params"]["containerProperties"]
    assert {"type": "GPU", "value": "1"} in made["resourceRequirements"]
    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--site"]) == 0
    assert left(region, tmp_path) == []


def test_an_unchanged_job_is_not_run_again_and_costs_few_calls(
    region: Region, capsys: Capture
) -> None:
    job = write("echo once")
    assert run(["apply", job]) == 0
    before = len(calls(region))

    assert run(["apply", job]) == 0

    assert len(calls(region)) - before <= 4
    assert len(jobs(region)) == 1
    assert "starting no other" in capsys.readouterr().err


def test_a_second_run_registers_nothing_and_uploads_nothing(region: Region) -> None:
    job = write("echo twice")
    run(["apply", job])

    assert run(["apply", job, "--new"]) == 0

    assert len(calls(region, "RegisterJobDefinition")) == 1
    assert len(calls(region, "CreateJobQueue")) == 1
    assert len(calls(region, "SubmitJob")) == 2


def test_a_secret_is_in_the_job_and_nowhere_else(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    job = write('echo "${#TOKEN} characters"', secrets={"TOKEN": "hf"})

    assert run(["apply", job]) == 0

    assert "6 characters" in capsys.readouterr().out
    home = Path(str(tmp_path))
    kept = [p for p in home.rglob("*") if p.is_file() and "region" not in p.parts]
    assert not any(b"s3cret" in path.read_bytes() for path in kept)
    assert "s3cret" not in json.dumps(calls(region))


def test_no_credentials_are_said_in_one_line(
    region: Region, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    job = write("echo a")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    assert run(["plan", job]) == 0
    assert run(["apply", job]) == 5

    assert "there are no AWS credentials on this machine" in capsys.readouterr().err


def test_a_rehearsal_is_one_command_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ENDPOINT_URL", "RUNSPEC_PROFILE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    job = write("echo rehearsed > ${outputs.o}/a", outputs=[{"name": "o", "path": "/job/o"}])

    assert run(["rehearse", job, "--folder", "kept"]) == 0

    assert (tmp_path / "kept" / "outputs" / "o" / "a").read_text() == "rehearsed\n"
    assert "shared resource" in capsys.readouterr().err
