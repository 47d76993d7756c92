"""The same chain on each provider by one field, and over three providers: what a job saves, the next one reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_jobs import api
from runspec_jobs.cli.app import run
from tests.support.profiles import own_profile
from tests.support.providers_of_chains import printed, stand_in
from tests.support.requirements import need
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow

CHAIN = """
apiVersion: runspec/v1
name: prepare
provider: {0}
container: {{image: "python:3.12"}}
outputs: [{{name: data, path: /job/data}}]
run: |
  echo 5 > ${{outputs.data}}/a
  for name in .env b.pyc .gitignore; do echo '*' > ${{outputs.data}}/$name; done
  chmod 640 ${{outputs.data}}/a
---
apiVersion: runspec/v1
name: search
provider: {1}
container: {{image: "python:3.12"}}
mounts: [{{name: data, source: run://prepare/data, target: /job/in}}]
outputs: [{{name: model, path: /job/model}}]
sweep: {{lr: [1, 2]}}
metric: {{name: loss, goal: min, pattern: 'loss=(\\S+)'}}
run: |
  read n < ${{mounts.data}}/a
  for name in .env b.pyc .gitignore; do test -e ${{mounts.data}}/$name; done
  echo $((n * ${{sweep.lr}})) > ${{outputs.model}}/m
  echo loss=$((10 - ${{sweep.lr}}))
---
apiVersion: runspec/v1
name: predict
provider: {2}
container: {{image: "python:3.12"}}
mounts:
- {{name: best, source: 'run://search/model?best', target: /job/best}}
- {{name: every, source: 'run://search/model', target: /job/every}}
outputs: [{{name: found, path: /job/found}}]
run: |
  cat ${{mounts.best}}/m ${{mounts.every}}/task-0/m > ${{outputs.found}}/numbers
"""


@pytest.mark.parametrize(
    "providers",
    [
        ("aws-batch",) * 3,
        pytest.param(("azure-batch",) * 3, marks=pytest.mark.matrix),
        pytest.param(("slurm",) * 3, marks=pytest.mark.matrix),
        pytest.param(("parallelcluster",) * 3, marks=pytest.mark.matrix),
        pytest.param(("azure-batch-ai",) * 3, marks=pytest.mark.matrix),
        ("slurm", "azure-batch", "aws-batch"),
    ],
    ids="-".join,
)
def test_a_job_reads_what_the_one_before_it_has_saved(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    providers: tuple[str, str, str],
) -> None:
    need("slurmctld")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.yaml").write_text(CHAIN.format(*providers).lstrip())

    assert run(["rehearse", "all.yaml", "--folder", "kept"]) == 0, capfd.readouterr().err

    assert (tmp_path / "kept/outputs/found/numbers").read_text() == "10\n5\n"
    assert "predict succeeded" in capfd.readouterr().err


def write_profile() -> None:
    """Write a profile with which jobs are planned for AWS Batch."""
    role = "arn:aws:iam::123456789012:role/j"
    settings = {
        "region": "eu-west-1", "bucket": "bucket", "job_role": role, "subnets": ["subnet-1"],
        "security_groups": ["sg-1"], "instance_role": "arn:aws:iam::123456789012:instance-profile/i",
    }  # fmt: skip
    own_profile().write_text(json.dumps({"providers": {"aws-batch": settings}}))


PAIRED = """
apiVersion: runspec/v1
name: train
provider: {0}
container: {{image: "python:3.12"}}
outputs: [{{name: model, path: /job/model}}]
sweep: {{lr: [1, 2]}}
run: |
  test ${{sweep.lr}} = 1 || exit 3
  echo ${{sweep.lr}} > ${{outputs.model}}/m
---
apiVersion: runspec/v1
name: evaluate
provider: {0}
container: {{image: "python:3.12"}}
mounts: [{{name: model, source: 'run://train/model?task=same', target: /job/in}}]
outputs: [{{name: found, path: /job/found}}]
sweep: {{of: [a, b]}}
run: |
  cp ${{mounts.model}}/m ${{outputs.found}}
"""


@pytest.mark.parametrize("provider", ["aws-batch", "slurm"])
def test_each_task_waits_for_the_task_of_its_number_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    provider: str,
) -> None:
    need("slurmctld")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.yaml").write_text(PAIRED.format(provider).lstrip())

    # The second task of `train` fails: that of `evaluate` never starts, and the first one does.
    assert run(["rehearse", "all.yaml", "--folder", "kept"]) == 1, capfd.readouterr().err

    assert (tmp_path / "kept/outputs/task-0/found/m").read_text() == "1\n"
    assert not (tmp_path / "kept/outputs/task-1").exists()


def test_a_pair_of_arrays_is_planned_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_profile()
    (tmp_path / "all.yaml").write_text(PAIRED.format("aws-batch").lstrip())

    assert run(["plan", "all.yaml", "--json"]) == 0

    steps = json.loads(capfd.readouterr().out)["jobs"][1]["plan"]["steps"]
    (submit,) = [step for step in steps if step["id"] == "job"]
    assert submit["do"]["params"]["dependsOn"] == [
        {"jobId": {"$answer": "train-000000/job.jobId"}, "type": "N_TO_N"}
    ]
    (record,) = [step for step in steps if step["id"] == "record"]
    needs = json.loads(record["do"]["params"]["Body"])["needs"]
    assert needs == [{"run": "train-000000", "paired": True}]


OF_ANOTHER = """
apiVersion: runspec/v1
name: prepare
provider: {0}
outputs: [{{name: data, path: /job/data}}]
run: |
  while test -e {1}; do sleep 0.1; done
  echo 5 > ${{outputs.data}}/a
---
apiVersion: runspec/v1
name: train
provider: {0}
mounts: [{{name: data, source: run://prepare/data, target: /job/in}}]
run: |
  echo read $(cat ${{mounts.data}}/a)
"""


@pytest.mark.parametrize(
    "provider", ["slurm", "azure-batch", pytest.param("aws-batch", marks=pytest.mark.matrix)]
)
def test_a_chain_goes_on_from_a_run_of_another_machine_that_was_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    """The other machine has a state folder of its own; it adopts the run while that goes on."""
    monkeypatch.chdir(tmp_path)
    going = tmp_path / "going"
    going.touch()
    (tmp_path / "all.yaml").write_text(OF_ANOTHER.format(provider, going).lstrip())

    with stand_in(provider, "all.yaml"):
        here = os.environ["RUNSPEC_HOME"]
        assert run(["apply", "all.yaml", "--until", "prepare", "--detach"]) == 0
        (prepare,) = [one.id for one in api.runs()]
        monkeypatch.setenv("RUNSPEC_HOME", f"{here}-other")
        assert run(["adopt", provider, prepare]) == 0
        assert run(["apply", "all.yaml", "--detach"]) == 0
        going.unlink()
        assert run(["apply", "all.yaml"]) == 0

        assert [one.id for one in api.runs("prepare")] == [prepare]
        assert len(api.runs("train")) == 1
        assert printed("train") == "read 5\n"
        monkeypatch.setenv("RUNSPEC_HOME", here)


@pytest.mark.matrix
def test_a_job_that_needs_a_failure_does_not_start_after_a_cancelled_one(project: Project) -> None:
    """Although Slurm counts a cancelled job as failed."""
    head = "apiVersion: runspec/v1\nprovider: slurm\n"
    first = f"{head}name: train\nrun: sleep 600\n"
    second = f"{head}name: tidy\nneeds: {{train: failed}}\nrun: echo tidied\n"
    (project.folder / "all.yaml").write_text(f"{first}---\n{second}")
    line = [sys.executable, "-m", "runspec_jobs", "apply", "all.yaml"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as applying:
        project.until(lambda: "RUNNING" in "".join(project.jobs("%T")))

        assert project.said("cancel", "train")[0] == 0

        _, said = applying.communicate(timeout=90)
    assert applying.returncode == 1
    assert "tidy  skipped: train was cancelled" in said
    assert len(project.jobs("%i")) == 1
