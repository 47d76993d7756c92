"""The environment of the tasks of an array on a real Slurm, beside the one that Slurm itself takes from a login."""

from __future__ import annotations

import json
import shlex
import stat
import sys

import pytest

from tests.support.slurm.project import (
    Project,
    cluster as cluster,  # a fixture
    project as project,  # a fixture
)

pytestmark = pytest.mark.slow
TELL = "import json, os; print(json.dumps(dict(os.environ)))"
# Of the shell that prints them, and of pam_mail(8), which a login without Slurm's permissions cannot ask.
OF_SHELLS = {"_", "PWD", "OLDPWD", "SHLVL", "MAIL"}
TASKS = 12


def test_tasks_have_the_environment_of_one_login_of_their_node(
    project: Project,
) -> None:
    """As a job of `sbatch --export=NONE` has, for which Slurm starts the login shell; and nothing else is left out."""
    project.profile(environment="login", python=sys.executable)
    command = [sys.executable, "-c", TELL]
    script, output = project.folder / "bare.sh", project.folder / "bare.json"
    script.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n")

    project.cluster.run("sbatch", "--wait", "--export=NONE", f"--output={output}", str(script))
    expected = json.loads(output.read_text())
    alone = project.ended(command=command)
    array = project.ended(None, "--new", command=command, sweep={"n": f"1..{TASKS}"})
    found = [said(project, array["run"], task) for task in range(TASKS)]

    assert (alone["state"], array["state"]) == ("succeeded", "succeeded")
    assert of_login(said(project, alone["run"], 0)) == of_login(expected)
    assert [of_login(env) for env in found] == [of_login(expected)] * TASKS
    written = list((project.workspace / "runs" / array["run"] / "login").glob("node?"))
    assert 1 <= len(written) <= 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def said(project: Project, run: str, task: int) -> dict[str, str]:
    """Give the variables that a task has printed."""
    text = (project.workspace / "runs" / run / "logs" / f"{task}-0.txt").read_text()
    found: dict[str, str] = json.loads(text)
    return found


def of_login(env: dict[str, str]) -> dict[str, str]:
    """Give the variables that are neither of the job nor of its task."""
    own = ("RUNSPEC_", "SLURM", "TMPDIR", "HOSTNAME", "PYTHONUNBUFFERED", "ENVIRONMENT")
    return {k: v for k, v in env.items() if k not in OF_SHELLS and not k.startswith(own)}
