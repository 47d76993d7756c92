"""`container.requirements` on a real Slurm: the environment is in the workspace, and built once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.requirements import need
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
BUILDING = "runspec: building the environment of 1 requirements"


def with_uv() -> dict[str, str]:
    need("uv")
    uv = shutil.which("uv")
    assert uv is not None
    return {"PATH": f"{Path(uv).parent}:{os.defpath}", "UV_LINK_MODE": "copy"}


def test_an_environment_is_built_once_for_all_tasks_attempts_and_runs(project: Project) -> None:
    """Four tasks that begin at once, each with two attempts, and another run; `destroy --shared` deletes it."""
    script = 'python -c "import six; print(six.__file__)"; [ "$RUNSPEC_ATTEMPT" = 2 ]'
    fields = {"container": {"requirements": ["six"]}, "env": with_uv(), "retry": {"attempts": 2}}

    first = project.ended(script, sweep={"n": "1..4"}, **fields)
    log = project.log()
    again = project.ended("python -c 'import six; print(six.__file__)'", "--new", **fields)

    assert (first["state"], again["state"]) == ("succeeded", "succeeded"), log
    assert log.count(BUILDING) == 1
    assert project.log().count(BUILDING) == 0
    (made,) = {line.split()[-1] for line in log.splitlines() if "six.py" in line}
    assert Path(made).is_relative_to(project.workspace / "environments")
    assert project.log().splitlines()[-1] == made
    for ended in (first, again):
        assert project.said("destroy", ended["run"])[0] == 0
    assert project.said("destroy", "--shared")[0] == 0
    assert project.left() == []


def test_an_environment_that_no_run_on_record_names_is_found(project: Project) -> None:
    project.ended("true", container={"requirements": ["six"]}, env=with_uv())
    stray = project.workspace / "environments" / "0123"
    stray.mkdir()
    (stray / "requirements.txt").write_text("six\n")

    _, out, err = project.said("gc", "slurm")

    assert "environments/0123" in out + err
    assert (out + err).count("environments/") == 1


# Stands in for micromamba, which no registry of this machine has: it makes a `python` that says what was asked for.
MICROMAMBA = """#!/bin/sh
echo made >>"${0%/*}/calls"
mkdir -p "$5/bin"
printf '#!/bin/sh\\ncat %s\\n' "$7" >"$5/bin/python"
chmod +x "$5/bin/python"
"""


def test_a_conda_environment_is_made_once_by_micromamba(project: Project, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "micromamba").write_text(MICROMAMBA)
    (tools / "micromamba").chmod(0o755)
    (tmp_path / "environment.yml").write_text("dependencies: [numpy=1.26]\n")
    fields = {"container": {"conda": "environment.yml"}, "env": {"PATH": f"{tools}:{os.defpath}"}}

    found = project.ended("python", sweep={"n": "1..3"}, **fields)
    without = project.ended("python", "--new", **{**fields, "env": {}, "name": "without"})

    assert found["state"] == "succeeded", project.log()
    assert (tools / "calls").read_text() == "made\n"
    assert project.log().count("dependencies: [numpy=1.26]") == 3
    assert without["state"] == "succeeded"  # the environment is there already
    (tmp_path / "environment.yml").write_text("dependencies: [numpy=1.25]\n")
    without = project.ended("python", "--new", **{**fields, "env": {}, "name": "without"})
    assert (without["state"], without["exit_code"]) == ("failed", 2)
    assert "container.conda needs micromamba" in project.log("without")
