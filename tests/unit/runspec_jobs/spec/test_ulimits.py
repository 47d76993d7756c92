"""The limits of a process: how a spec writes them, and the shell that sets them before the program."""

from __future__ import annotations

import resource
import shutil
import subprocess

import pytest

from runspec_agent.base import program_hooks
from runspec_jobs.document import reader
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import argv
from runspec_jobs.spec.validate import parse_spec
from tests.support.spec_examples import SHORT

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]


def read(limits: str) -> Spec:
    found, wrong = parse_spec(reader.read(SHORT + f"ulimits: {limits}\n"))
    assert found is not None, wrong
    return found


def run(shell: list[str], spec: Spec, *program: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    words = argv(spec.model_copy(update={"command": program, "run": None}))
    return subprocess.run([*shell, *words[1:]], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("written", ["-1", "unlimited"])
def test_no_limit_is_written_as_in_a_shell_or_as_engines_do(written: str) -> None:
    assert read(f"{{memlock: {written}}}").ulimits.given == {"memlock": -1}


def test_a_job_without_limits_has_no_further_words() -> None:
    assert argv(read("{}")) == ("echo", "hi")


def test_a_setup_has_the_limits_as_well_and_stays_in_front() -> None:
    """The agent finds it there."""
    spec = read("{nofile: 9}").model_copy(update={"setup": ("pip", "install")})

    setup, program = program_hooks.split(argv(spec))

    assert [setup[-5:], program[-5:]] == [
        ["ulimits", "nofile=n=9", "--", "pip", "install"],
        ["ulimits", "nofile=n=9", "--", "echo", "hi"],
    ]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.process
def test_the_program_has_the_limits_and_its_own_words(shell: list[str]) -> None:
    """The hard limits stay as they are, so that the program may raise its own."""
    script = 'ulimit -S -n; ulimit -S -s; ulimit -H -s; echo "$@"; echo "${_rs_v-}${_rs_w-}"'

    ended = run(shell, read("{nofile: 500, stack: 4MiB}"), "sh", "-c", script, "x", "a  b", "--")

    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    shown = "unlimited" if hard == resource.RLIM_INFINITY else str(hard // 1024)
    assert ended.stdout.splitlines() == ["500", "4096", shown, "a  b --", ""], ended.stderr


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.process
def test_less_than_was_asked_for_is_a_failure_that_names_the_limit(shell: list[str]) -> None:
    ended = run(shell, read("{nofile: 2000000000000}"), "echo", "it ran")

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert (ended.returncode, ended.stdout) == (2, "")
    why = f"nofile cannot be 2000000000000: the hard limit on this node is {hard}"
    assert ended.stderr == f"runspec: ulimits: {why}\n"
