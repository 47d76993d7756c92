"""Has this machine's /bin/sh read the scripts of a spec without running them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider import Spec
from runspec_jobs.spec.placeholders import shell_script

SHELL = "/bin/sh"
MOST_S = 5.0
# "/bin/sh: 3: Syntax error: ..." of dash, and "/bin/sh: line 3: syntax error ..." of bash and others
MESSAGE = re.compile(r"[^:]*: (?:line )?(\d+): (.*)")


def problems(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for each script of *spec* that is no valid program of /bin/sh.

    It is an error if that shell runs the script, which is so on this machine without a container; elsewhere /bin/sh may
    be another one, and it is a note. The option -n makes a shell read a script without executing any of it:
    https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_26
    """
    here = spec.provider == "local" and spec.container.image is None
    for key, text in (("run", spec.run), ("smoke", spec.smoke)):
        wrong = _syntax_error(shell_script(text)) if isinstance(text, str) else None
        if wrong is None:
            continue
        what = wrong if here else f"{wrong}, says {SHELL} of this machine"
        yield Problem((key,), what, severity="error" if here else "note", at="key")


def _syntax_error(script: str) -> str | None:
    """Return the first syntax error in *script*, or None if there is none, or no shell that could say so.

    The shell gets no variable of this process: a shell may read the file that ENV or BASH_ENV names.
    """
    try:
        done = subprocess.run(
            [SHELL, "-n"],
            input=script.encode(),
            capture_output=True,
            cwd="/",
            env={"LC_ALL": "C"},
            timeout=MOST_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode == 0:
        return None
    told = done.stderr.decode("utf-8", "replace").partition("\n")[0]
    match = MESSAGE.fullmatch(told)
    if match is None:
        return None
    line, what = match.groups()
    return f"line {line} of the script: {what[:1].lower()}{what[1:]}"
