"""`{from: caller}` takes a variable from the shell: in env as a value like others, in secrets by its name alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.api import jobs, specs
from runspec_jobs.cli.app import run
from runspec_jobs.document import reader
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.plan.model import write_plan
from runspec_jobs.spec import validate
from runspec_jobs.spec.model import Spec

HEAD = """\
apiVersion: runspec/v1
name: a
provider: local
providers: {local: {engine: process}}
"""
ENV = "env: {A: {from: caller}, B: caller, C: x}\ncommand: [env]\n"
SECRET = 'secrets: {TOKEN: {from: caller}}\nrun: echo "${#TOKEN}"\n'


def load(folder: Path, spec: str) -> jobs.Job:
    (folder / "job.yaml").write_text(HEAD + spec)
    return jobs.load(folder / "job.yaml")


@pytest.mark.parametrize("value", ["", "a b", "${mounts.x} $${sweep.y} ${params.z}", "$A\n'\"\\"])
def test_a_value_is_taken_as_it_is_and_kept_in_the_record(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", value)
    made = load(tmp_path, ENV)
    monkeypatch.delenv("A")

    assert made.spec.env == {"A": value, "B": "caller", "C": "x"}
    kept, _ = validate.parse_recorded(reader.read(made.text.applied))
    assert kept is not None and kept.env == made.spec.env


def test_a_value_that_is_not_there_is_an_error_but_for_validate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A", raising=False)
    with pytest.raises(InvalidSpec) as caught:
        load(tmp_path, ENV)

    (found,) = caught.value.texts[0].diagnostics
    assert (found.path, found.line, found.what) == ("env.A", 5, "A is not set in your shell")
    assert found.hint == "export A=VALUE, or write the value here"
    assert not [p for p in specs.validate((HEAD + ENV).encode()) if p.severity == "error"]


@pytest.mark.parametrize("field", ["env", "secrets"])
def test_only_a_caller_can_be_meant(field: str) -> None:
    (found,) = specs.validate(f"{HEAD}{field}: {{A: {{from: shell}}}}\ncommand: [env]\n".encode())

    assert (found.path.partition(".")[0], found.severity) == (field, "error")


def test_a_secret_is_its_name_wherever_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-s3cret")
    made = load(tmp_path, SECRET)
    short = load(tmp_path, SECRET.replace("{from: caller}", "caller"))
    plan = json.dumps(write_plan(jobs.plan(made)))

    assert '{"TOKEN": {"$secret": "env:TOKEN"}}' in plan
    assert "s3cret" not in plan + made.text.applied.decode() + repr(made.spec)
    assert short.spec == made.spec and jobs.plan(short).digest == jobs.plan(made).digest
    assert jobs.load(Spec.model_validate(made.spec.model_dump())).spec == made.spec
    typed, problems = validate.parse_spec(
        reader.read(f"{HEAD}secrets: {{A: 'env:A'}}\nrun: x".encode())
    )
    assert typed is None and problems  # such a name is not for users


@pytest.mark.process
def test_a_secret_reaches_the_job_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
    (tmp_path / "job.yaml").write_text(HEAD + SECRET)
    monkeypatch.delenv("TOKEN", raising=False)
    assert run(["apply", str(tmp_path / "job.yaml")]) == 5
    assert "export TOKEN before you apply" in capsys.readouterr().err
    monkeypatch.setenv("TOKEN", "s3cret-s3cret")

    assert run(["apply", str(tmp_path / "job.yaml")]) == 0

    assert "13" in capsys.readouterr().out.split()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cret-s3cret" in path.read_bytes()]
