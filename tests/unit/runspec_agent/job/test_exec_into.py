"""A shell enters where the program of a node runs, which is looked for by its variables."""

from __future__ import annotations

import subprocess

import pytest

from runspec_agent.job import exec_into

pytestmark = pytest.mark.process


def test_the_program_of_a_node_is_the_process_with_its_variables() -> None:
    marks = {"RUNSPEC_RUN": "exec-into-1", "RUNSPEC_TASK": "0"}
    with subprocess.Popen(["/bin/sleep", "60"], env={**marks, "PATH": "/bin"}) as process:
        found = exec_into.program(marks), exec_into.program({**marks, "RUNSPEC_TASK": "1"})
        process.kill()

    assert found == (process.pid, None)
