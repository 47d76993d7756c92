"""A script that begins with `#!` is run by the interpreter that this line names, as the kernel would run a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from runspec_jobs.spec import placeholders
from runspec_jobs.spec.interpreter import interpreter
from runspec_jobs.spec.model import Spec
from tests.support.agent.shells import CALLS, run

VALUES = {"RUNSPEC_MOUNT_CODE": "/co de", "RUNSPEC_SWEEP_LR": "it's"}
BASHISM = """\
#!/bin/bash
if [[ "$RUNSPEC_RANK" == 0 ]]; then role=head; else role=worker; fi
a=(x y)
echo "$role ${a[1]} ${mounts.code} ${sweep.lr} $#"
"""
PYTHON = """\
#!/usr/bin/env -S python3 -u
import sys
print("${mounts.code}", __file__.startswith("/"), sys.flags.interactive, len(sys.argv))
"""


def words(text: str) -> list[str]:
    return list(
        placeholders.argv(Spec(apiVersion="runspec/v1", name="a", provider="local", run=text))
    )


@pytest.mark.parametrize(
    ("line", "expected", "program", "is_shell"),
    [
        ("#!/bin/bash", ("/bin/bash",), "/bin/bash", True),
        ("#! /bin/bash -eu -x  ", ("/bin/bash", "-eu -x"), "/bin/bash", True),
        ("#!/usr/bin/env bash", ("/usr/bin/env", "bash"), "bash", True),
        ("#!/usr/bin/env -S python3 -u", ("/usr/bin/env", "python3", "-u"), "python3", False),
        ("#!/usr/bin/env -S A=b bash -x", ("/usr/bin/env", "A=b", "bash", "-x"), "bash", True),
        ("#!/usr/bin/env -S perl '-w -T'", ("/usr/bin/env", "perl", "-w -T"), "perl", False),
        ("#!/usr/bin/env -S a$b", ("/usr/bin/env", "-S a$b"), "/usr/bin/env", False),
        ("#!/usr/bin/python3", ("/usr/bin/python3",), "/usr/bin/python3", False),
        ("#!/bin/sh", ("/bin/sh",), "/bin/sh", True),
        ("\n#!/usr/bin/perl\t-w", ("/usr/bin/perl", "-w"), "/usr/bin/perl", False),
    ],
)
def test_the_first_line_names_interpreter_and_argument(
    line: str, expected: tuple[str, ...], program: str, is_shell: bool
) -> None:
    assert interpreter(f"{line}\necho\n") == (expected, program, is_shell)


@pytest.mark.parametrize(
    "text", ["echo hi", "# !/bin/bash", " #!/bin/bash", "#!\necho", "x\n#!/bin/a"]
)
def test_a_script_without_an_interpreter_line_is_run_by_the_shell(text: str) -> None:
    assert words(text) == ["/bin/sh", "-e", "-c", text]


@pytest.mark.process
@pytest.mark.parametrize("shell, form", CALLS)
def test_bash_reads_the_script_that_names_it(shell: str, form: str, tmp_path: Path) -> None:
    done = run(shell, form, words(BASHISM), RUNSPEC_RANK="0", TMPDIR=str(tmp_path), **VALUES)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == "head y /co de it's 0\n"


@pytest.mark.process
@pytest.mark.parametrize("shell, form", CALLS)
def test_other_interpreters_get_values_in_place_of_placeholders(
    shell: str, form: str, tmp_path: Path
) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = run(shell, form, words(PYTHON), TMPDIR=str(tmp_path), PATH=path, **VALUES)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == "/co de True 0 1\n"


@pytest.mark.process
@pytest.mark.parametrize("shell, form", CALLS)
@pytest.mark.parametrize(
    "line", ["/opt/none/zsh", "/usr/bin/env none-such", "/usr/bin/env -S none-such -x"]
)
def test_a_missing_interpreter_is_named(line: str, shell: str, form: str, tmp_path: Path) -> None:
    done = run(shell, form, words(f"#!{line}\necho\n"), TMPDIR=str(tmp_path))

    name = line.removeprefix("/usr/bin/env ").removeprefix("-S ").split()[0]
    assert done.returncode == 127
    assert (
        f"runspec: the script begins with #!, and '{name}' is not installed here"
        in done.stderr.decode()
    )
    assert done.stdout == b"" and list(tmp_path.iterdir()) == []


@pytest.mark.process
@pytest.mark.parametrize("shell, form", CALLS)
def test_a_shell_stops_at_the_first_failure(shell: str, form: str, tmp_path: Path) -> None:
    done = run(shell, form, words("#!/bin/bash\nfalse\necho after\n"), TMPDIR=str(tmp_path))

    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.process
@pytest.mark.parametrize("shell, form", CALLS)
def test_the_script_is_private_and_in_the_folder_of_the_node(
    shell: str, form: str, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    text = '#!/bin/sh\nls -l "$0"; echo "${RUNSPEC_SCRIPTS-none}"; umask\n'

    done = run(shell, form, words(text), TMPDIR=str(tmp_path), RUNSPEC_SCRIPTS=str(own))

    listed, scripts, mask = done.stdout.decode().splitlines()
    assert listed.startswith("-rw-------") and str(own) in listed
    assert (scripts, mask) == ("none", f"{_umask():04o}")
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


@pytest.mark.process
def test_a_link_that_somebody_else_has_laid_is_not_followed(tmp_path: Path) -> None:
    """In a folder like /tmp, names can be guessed: the file is made with O_EXCL, or under the next name."""
    victim = tmp_path / "victim"
    line = f'ln -s {victim} {tmp_path}/script.$$.0; exec "$@"'

    done = run(
        "dash",
        "file",
        ["/bin/sh", "-c", line, "sh", *words("#!/bin/sh\necho ran\n")],
        TMPDIR=str(tmp_path),
    )

    assert done.stdout == b"ran\n", done.stderr
    assert not victim.exists()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
