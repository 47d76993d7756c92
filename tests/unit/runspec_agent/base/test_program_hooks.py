"""The setup runs before the program in every shell, and its failure is told apart."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from runspec_agent.base import program_hooks
from runspec_jobs.spec import placeholders
from runspec_jobs.spec.model import Spec
from tests.support.agent.shells import SHELLS, environment

every_shell = pytest.mark.parametrize("shell", SHELLS)
WORDS = ["a  b", "", "*", "it's", "-x"]
SHOW = 'for a in "$@"; do printf "<%s>" "$a"; done; echo'


def words(**fields: object) -> list[str]:
    head = {"apiVersion": "runspec/v1", "name": "a", "provider": "local"}
    return list(placeholders.argv(Spec.model_validate({**head, **fields})))


def run(shell: str, argv: Sequence[str], **env: str) -> subprocess.CompletedProcess[bytes]:
    """Give how *argv* end, with *shell* as its first program."""
    program = shutil.which(SHELLS[shell][0])
    assert program is not None, f"{shell} is needed: install it"
    line = [program, *SHELLS[shell][1:], *argv[1:]]
    return subprocess.run(line, env=environment(env), capture_output=True, timeout=60)


@every_shell
@pytest.mark.process
def test_setup_and_program_get_their_arguments_unchanged(shell: str, tmp_path: Path) -> None:
    setup = ["sh", "-c", SHOW, "setup", *WORDS]
    argv = words(setup=setup, command=["sh", "-c", f'{SHOW}; echo "$_rs_n$n"', "sh", "1", *WORDS])

    done = run(shell, argv, n="5", RUNSPEC_SETUP=str(tmp_path / "failed"))

    expected = "<a  b><><*><it's><-x>"
    assert done.stdout.decode().splitlines() == [expected, f"<1>{expected}", "5"]
    assert done.returncode == 0
    assert b"runspec: setup ended" in done.stderr
    assert program_hooks.failed(str(tmp_path / "failed")) is None
    assert program_hooks.took_s(str(tmp_path / "failed")) in range(60)


@every_shell
@pytest.mark.process
def test_a_setup_that_fails_starts_no_program_and_leaves_its_code(
    shell: str, tmp_path: Path
) -> None:
    argv = words(setup="#!/bin/sh\nfalse\nexit 3\n", command=["echo", "hi"])
    path = str(tmp_path / "failed")

    done = run(shell, argv, RUNSPEC_SETUP=path)

    assert (done.returncode, done.stdout) == (1, b"")  # since a shell gets -e
    assert b"runspec: setup failed with exit code 1" in done.stderr
    assert program_hooks.failed(path) == 1
    assert program_hooks.took_s(path) in range(60)


@pytest.mark.process
def test_a_setup_hears_that_it_has_to_end(tmp_path: Path) -> None:
    """As process 1 of a container, which ignores the signals that it does not handle."""
    script = (
        f"trap 'echo saved >{tmp_path}/saved; exit 9' TERM; echo up; while :; do sleep 0.05; done"
    )
    argv = program_hooks.wrap(["sh", "-c", script], ["echo", "program"])
    env = {"RUNSPEC_SETUP": str(tmp_path / "failed"), "PATH": "/usr/bin:/bin"}
    child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "up\n"

    child.send_signal(signal.SIGTERM)

    assert (child.communicate(timeout=30)[0], child.returncode) == ("", 143)
    assert (tmp_path / "saved").read_text() == "saved\n"
    assert program_hooks.ended(env["RUNSPEC_SETUP"]) is None


@pytest.mark.parametrize(
    ("content", "code", "took_s"),
    [("setup 0 12\n", 0, 12), ("setup 3 \n", 3, None), ("setup 3\n", 3, None)],
)
def test_the_time_of_a_setup_is_read_if_its_image_can_tell_it(
    content: str, code: int, took_s: int | None, tmp_path: Path
) -> None:
    """A file of version 0.3.0 has the code of a failure alone."""
    (tmp_path / "setup").write_text(content)

    assert program_hooks.ended(str(tmp_path / "setup")) == (code, took_s)


@pytest.mark.parametrize("content", ["", "setup", "setup x 1\n", "setup 1000 1\n", "begun\n"])
def test_a_file_that_no_setup_has_written_says_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / "setup").write_text(content)

    assert program_hooks.ended(str(tmp_path / "setup")) is None
    assert program_hooks.ended(str(tmp_path / "none")) is None


@pytest.mark.process
def test_a_missing_program_is_reported_by_its_name() -> None:
    done = run("dash", words(setup=["true"], command=["no-such-program"]))

    assert done.returncode == 127
    assert b"runspec: 'no-such-program': command not found" in done.stderr
