"""`container.conda`: which specs and which providers take it, and what a plan has of its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.load import registry
from runspec_jobs.provider import SupportsConda
from tests.support.profiles import own_profile

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nname: toy\ncommand: [a]\n"
FILE = "dependencies: [numpy=1.26]\n"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "environment.yml").write_text(FILE)
    return tmp_path / "job.yaml"


def test_clusters_alone_take_it_and_the_others_say_what_to_write(
    job: Path, capsys: Capture
) -> None:
    able = set()
    for name in registry.list_installed():
        text = f"{HEAD}provider: {name}\ncontainer: {{conda: environment.yml}}\n"
        job.write_text(text)
        run(["validate", "job.yaml"])
        said = capsys.readouterr()
        refused = f"'{name}' builds no conda environment" in said.out + said.err
        assert refused is not isinstance(registry.load(name), SupportsConda), said
        able |= set() if refused else {name}

    assert able == {"slurm", "parallelcluster"}


@pytest.mark.parametrize(
    "more", ["requirements: [x]", "build_constraints: [x]", 'python: ">=3.9"', "image: python:3.12"]
)
def test_conda_excludes_fields_that_its_file_has(job: Path, capsys: Capture, more: str) -> None:
    job.write_text(f"{HEAD}provider: slurm\ncontainer: {{conda: environment.yml, {more}}}\n")

    assert run(["validate", "job.yaml"]) == 2
    said = capsys.readouterr()
    assert f"'conda' and '{more.partition(':')[0]}' cannot be used together" in said.out + said.err


@pytest.mark.process
def test_a_plan_names_the_environment_by_what_the_file_contains(job: Path, capsys: Capture) -> None:
    own_profile().write_text("providers: {slurm: {workspace: /shared}}\n")
    job.write_text(f"{HEAD}provider: slurm\ncontainer: {{conda: environment.yml}}\n")

    def planned() -> tuple[str, str]:
        assert run(["plan", "job.yaml", "--json"]) == 0
        steps = {s["id"]: s for s in json.loads(capsys.readouterr().out)["steps"]}
        record = json.loads(steps["record"]["do"]["params"]["content"])
        assert record["conda"] is True
        params = steps["environment"]["do"]["params"]
        return params["key"], params["content"]

    first = planned()
    (job.parent / "environment.yml").write_text(FILE.replace("1.26", "1.25"))

    assert first[1] == FILE
    assert first[0].startswith("environments/") and first[0].endswith("/environment.yml")
    assert planned()[0] != first[0]
