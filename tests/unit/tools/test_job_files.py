"""What tools/job_files.py counts as said is said: by a spec that is valid, and that plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import job_files
import pytest
import yaml

from runspec_jobs.cli.app import run
from tests.support.profiles import own_profile
from tests.support.requirements import need

HEAD = """\
apiVersion: runspec/v1
name: first
provider: {said.provider}
providers: {{local: {{engine: {said.engine}, without_gpus: true}}, {said.settings}}}
"""
PROFILE = """\
providers:
  local: {{engine: process}}
  slurm: {{workspace: {workspace}}}
  aws-batch:
    region: us-east-1
    bucket: jobs-1
    job_role: arn:aws:iam::210987654321:role/job
    execution_role: arn:aws:iam::210987654321:role/execution
    instance_role: arn:aws:iam::210987654321:instance-profile/machine
    subnets: [subnet-1]
    security_groups: [sg-1]
  azure-batch:
    batch_url: https://jobs.westus3.batch.azure.com
    storage_account: jobs
    storage_key: env:KEY
    container: jobs
    image: microsoft-dsvm:ubuntu-hpc:2404-rocm:latest
    node_agent: batch.node.ubuntu 24.04
    shared: {{cifar: "blob:jobs/cifar"}}
"""


@pytest.mark.process
@pytest.mark.parametrize("loss", job_files.SAID)
def test_every_setting_counted_as_expressible_has_a_spec_that_plans(
    loss: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own_profile().write_text(PROFILE.format(workspace=tmp_path))
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "vars.env").write_text("A=1\n")
    (tmp_path / "image").mkdir()
    (tmp_path / "image/Containerfile").write_text("FROM scratch\n")
    said = job_files.SAID[loss]
    if said.engine == "podman":
        need("podman")
    text = HEAD.format(said=said) + said.spec
    (tmp_path / "jobs.yaml").write_text(text)

    assert run(["plan", "jobs.yaml", *said.options]) == 0, capsys.readouterr().err

    jobs = yaml.load_all(text, Loader=yaml.BaseLoader)
    assert any(has_field(job, said.field) for job in jobs)


def has_field(spec: Any, field: str) -> bool:
    for part in field.split("."):
        spec = spec.get(part) if isinstance(spec, dict) else None
    return spec is not None


def test_a_file_counts_as_said_if_nothing_of_it_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost: list[list[str]] = [[], ["deps"], ["deps", "unknown"], ["service", "deps"]]
    files = [{"id": str(n), "kind": "a", "lost": one} for n, one in enumerate(lost)]
    (tmp_path / "files.yaml").write_text(yaml.safe_dump(files))

    assert job_files.main([str(tmp_path / "files.yaml")]) == 0

    printed = capsys.readouterr().out
    assert "| a | 3 | 1 | 2 |\n| all | 3 | 1 | 2 |\n" in printed and "unknown 1" in printed
