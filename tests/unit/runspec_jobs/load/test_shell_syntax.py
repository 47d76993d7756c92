"""The shell that would run a script reads it first, and executes nothing of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.errors import UsageError

Capture = pytest.CaptureFixture[str]
OPEN = "run: |\n  if true; then\n  echo hi\n"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job.yaml"


def head(provider: str = "local") -> str:
    return f"apiVersion: runspec/v1\nname: a\nprovider: {provider}\n"


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_script_that_the_shell_cannot_read_is_an_error_with_its_line(
    verb: str, job: Path, capsys: Capture
) -> None:
    job.write_text(head() + OPEN)

    assert run([verb, "job.yaml"]) == UsageError.exit_code

    assert "job.yaml:4:1: run: line 3 of the script: syntax error: " in capsys.readouterr().err


@pytest.mark.process  # Slurm asks for its commands
def test_on_other_machines_it_is_a_note(job: Path, capsys: Capture) -> None:
    job.write_text(head("slurm") + OPEN)

    assert run(["plan", "job.yaml"]) == 0

    assert "note: run: line 3 of the script: " in capsys.readouterr().err


def test_a_smoke_test_is_read_too(job: Path, capsys: Capture) -> None:
    job.write_text(head() + "command: [a]\nsmoke: |\n  echo 'a\n")

    assert run(["plan", "job.yaml"]) == UsageError.exit_code

    assert "job.yaml:5:1: smoke: line " in capsys.readouterr().err


def test_nothing_of_a_script_is_executed(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env.sh").write_text(f"touch {tmp_path}/env\n")
    monkeypatch.setenv("ENV", str(tmp_path / "env.sh"))
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env.sh"))
    script = (
        f"touch {tmp_path}/done; x=$(touch {tmp_path}/done)\n  trap 'touch {tmp_path}/done' EXIT"
    )
    job.write_text(f"{head()}run: |\n  {script}\n")

    assert run(["plan", "job.yaml"]) == 0

    assert sorted(os.listdir(tmp_path)) == ["env.sh", "job.yaml"]


def test_placeholders_and_what_looks_like_options_are_no_errors(job: Path) -> None:
    outputs = "outputs: [{name: my-model, path: /job/m}]\n"
    job.write_text(head() + outputs + 'run: |\n  -n\n  ls "${outputs.my-model}/x"\n')

    assert run(["plan", "job.yaml"]) == 0


@pytest.mark.process  # bash, which the guard does not know
def test_a_script_for_bash_is_checked_by_bash(job: Path, capsys: Capture) -> None:
    job.write_text(head() + "run: |\n  #!/bin/bash\n  a=(1 2)\n  [[ a == b ]] || echo ${a[0]}\n")
    assert run(["plan", "job.yaml"]) == 0
    assert capsys.readouterr().err == ""

    job.write_text(head() + "run: |\n  #!/bin/bash\n  a=(1 2\n")

    assert run(["plan", "job.yaml"]) == UsageError.exit_code
    assert "job.yaml:4:1: run: line " in capsys.readouterr().err


@pytest.mark.process  # the program of the checkout, if it were started
@pytest.mark.parametrize("named", ["{}/bash", "{}/sh", "./bash", "/usr/bin/../..{}/bash"])
def test_a_shell_of_a_checkout_is_not_started(named: str, job: Path, tmp_path: Path) -> None:
    for name in ("bash", "sh"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
        (tmp_path / name).chmod(0o755)
    job.write_text(head() + f"run: |\n  #!{named.format(tmp_path)}\n  echo hi\n")

    run(["plan", "job.yaml"])

    assert not (tmp_path / "started").exists()


def test_a_script_for_something_else_is_not_checked_by_a_shell(job: Path, capsys: Capture) -> None:
    job.write_text(head() + "run: |\n  #!/usr/bin/env python3\n  print((1,\n  2))\n")

    assert run(["plan", "job.yaml"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line", ["/opt/none/zsh", "/usr/bin/env none-such"])
def test_an_interpreter_that_this_machine_lacks_is_an_error_of_a_local_job(
    line: str, job: Path, capsys: Capture
) -> None:
    job.write_text(head() + f"run: |\n  #!{line}\n  echo hi\n")

    assert run(["plan", "job.yaml"]) == UsageError.exit_code

    lacking = line.rsplit(maxsplit=1)[-1]
    told = capsys.readouterr().err
    assert f"this machine has no '{lacking}', which the first line of the script names" in told


def test_an_interpreter_of_an_image_is_not_looked_for_here(job: Path, capsys: Capture) -> None:
    job.write_text(head() + "container: {image: a}\nrun: |\n  #!/opt/none/zsh\n  echo hi\n")

    run(["plan", "job.yaml"])

    assert "this machine has no" not in capsys.readouterr().err
