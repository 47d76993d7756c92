"""Which programs are started without inside.sh: those with which it would do nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_agent.env.direct_start import is_direct


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs."""
    for name, text, mode in (
        ("script", "#!/bin/sh\n", 0o755),
        ("spaced", "#! /usr/bin/env python3\n", 0o755),
        ("plain", "echo runs in a shell only\n", 0o755),
        ("lost", "#!/no/such/interpreter\n", 0o755),
        ("empty", "", 0o755),
        ("closed", "#!/bin/sh\n", 0o644),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", ["script", "spaced", "./script", "sh", "/bin/sh", "test"])
def test_a_program_is_started_directly(programs: Path, name: str) -> None:
    assert is_direct([name, "a word", "$HOME"], {"PATH": f"{programs}:/usr/bin"}, str(programs))


@pytest.mark.parametrize(
    "name", ["plain", "./plain", "lost", "empty", "closed", "folder", "no-such", "-x", ""]
)
def test_what_a_shell_is_needed_for_has_one(programs: Path, name: str) -> None:
    """Also to say why it cannot be started, with the exit code of a shell."""
    assert not is_direct([name], {"PATH": f"{programs}:/usr/bin"}, str(programs))


def test_the_first_of_a_name_decides(programs: Path) -> None:
    """As in a shell: a later folder is not looked in if an earlier one has a program of the name."""
    (programs / "sh").write_text("echo not the one of the system\n")
    (programs / "sh").chmod(0o755)

    assert not is_direct(["sh"], {"PATH": f"{programs}:/bin"}, None)
    assert is_direct(["sh"], {"PATH": f"/bin:{programs}"}, None)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, []),
        ({}, ["/bin/echo", "${mounts.data}"]),
        ({}, ["/bin/echo", "$${mounts.data}"]),
        ({"RUNSPEC_LAUNCH": "mpi"}, ["/bin/echo"]),
        ({"RUNSPEC_CLAIM": "/a", "RUNSPEC_JOB": "7"}, ["/bin/echo"]),
        ({"RUNSPEC_WORDS": "A=B"}, ["/bin/echo"]),
    ],
)
def test_whatever_inside_sh_does_is_left_to_it(env: dict[str, str], words: list[str]) -> None:
    assert not is_direct(words, {"PATH": "/bin", **env}, None)
    assert is_direct(["/bin/echo", "a"], {"RUNSPEC_LAUNCH": "none"}, None)
