"""Tell whether a program may be started without inside.sh, which takes as long as the rest of a small task's start."""

import os
import stat
from typing import Dict, Optional, Sequence

from runspec_agent.base.spawn import places

ELF = b"\x7fELF"  # a shell runs as a script what begins neither with this nor with #!


def is_direct(argv: Sequence[str], env: Dict[str, str], cwd: Optional[str]) -> bool:
    """Return whether inside.sh would do nothing with *argv* and *env* but start the program, and would succeed.

    There is no launcher, no claim, no variable to rename and no reference to replace, and the shell would find a
    program that the system can start. All else is left to inside.sh, with its messages and exit codes.
    """
    if env.get("RUNSPEC_LAUNCH", "none") != "none" or not argv or argv[0].startswith("-"):
        return False
    if env.get("RUNSPEC_CLAIM") or env.get("RUNSPEC_WORDS") or any("${" in word for word in argv):
        return False
    for path in places(argv[0], env):
        whole = os.path.join(cwd or "", path)
        if _is_program(whole):
            return _begins(whole)
    return False


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False


def _begins(path: str) -> bool:
    """Return whether the file begins as a program does; its interpreter must be there, too."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(256)
    except OSError:  # it may be executed, and not be read
        return False
    if line.startswith(b"#!"):
        words = line[2:].split(None, 1)
        return bool(words) and os.access(words[0], os.X_OK)
    return line.startswith(ELF)
