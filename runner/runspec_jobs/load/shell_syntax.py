"""Has a shell of this machine read the scripts of a spec without running them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider import Spec
from runspec_jobs.regex import regex
from runspec_jobs.spec.interpreter import Interpreter, interpreter
from runspec_jobs.spec.placeholders import shell_script

SHELL = "/bin/sh"
SHELLS = ("sh", "bash", "dash")
FOLDERS = (
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
)  # of the system: a checkout may have a program called bash
MOST_S = 5.0
# "/bin/sh: 3: Syntax error: ..." of dash, and "/bin/sh: line 3: syntax error ..." of bash and others
MESSAGE = regex(r"[^:]*: (?:line )?(\d+): (.*)")


def find_problems(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for each script of *spec* that is no valid program of the shell which is to run it.

    It is an error if the shell of this machine runs the script, which is so on this machine without a container;
    elsewhere the shell may be another one, and it is a note. It is an error, too, if this machine lacks the interpreter
    that a script names. The option -n makes a shell read a script without executing any of it:
    https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_26
    """
    here = spec.provider == "local" and not (spec.container.image or spec.container.build)
    for key, text in (("run", spec.run), ("setup", spec.setup), ("smoke", spec.smoke)):
        if not isinstance(text, str):
            continue
        reads = interpreter(text)
        if here and reads is not None and (lacking := _find_lacking(reads, spec)):
            message = f"this machine has no '{lacking}', which the first line of the script names"
            yield Problem((key,), message, "install it, or name another interpreter", at="key")
            continue
        shell = _find_shell(reads)
        wrong = _find_syntax_error(shell, shell_script(text)) if shell else None
        if wrong is None:
            continue
        message = wrong if here else f"{wrong}, says {shell} of this machine"
        yield Problem((key,), message, severity="error" if here else "note", at="key")


def _find_lacking(reads: Interpreter, spec: Spec) -> str | None:
    """Return the program that this machine lacks to run a script; the job may have a PATH of its own."""
    if "PATH" in spec.env or spec.container.requirements or spec.container.conda:
        return None if shutil.which(reads.words[0]) else reads.words[0]
    return next(
        (program for program in (reads.words[0], reads.program) if not shutil.which(program)), None
    )


def _find_shell(reads: Interpreter | None) -> str | None:
    """Return the shell of this machine that can check a script; None for a script that is for something else.

    Only a shell of the system is started, and one that `env` finds by the user's PATH: a spec may name any file.
    """
    if reads is None:
        return SHELL
    folder, slash, name = reads.program.rpartition("/")
    known = name in SHELLS and (not slash or folder in FOLDERS)
    return reads.program if known else None


def _find_syntax_error(shell: str, script: str) -> str | None:
    """Return the first syntax error in *script*, or None if there is none, or no *shell* that could say so.

    The shell gets no variable of this process but PATH: a shell may read the file that ENV or BASH_ENV names.
    """
    import subprocess  # slow to import, and few specs have a script

    try:
        done = subprocess.run(
            [shell, "-n"],
            input=script.encode(),
            capture_output=True,
            cwd="/",
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
            timeout=MOST_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode == 0:
        return None
    first_line = done.stderr.decode("utf-8", "replace").partition("\n")[0]
    match = MESSAGE.fullmatch(first_line)
    if match is None:
        return None
    line, message = match.groups()
    return f"line {line} of the script: {message[:1].lower()}{message[1:]}"
