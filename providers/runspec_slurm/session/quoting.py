"""Text as words of a batch script: what comes out of the shell is what went in.

sbatch reads the script before any shell does. It refuses one with a carriage return before the end of a line, and it
looks for options of itself and of other schedulers (#SBATCH, #BSUB) at the beginning of lines, inside of quotes as well
(measured, 22.05). So no value has the end of a line or a carriage return in it: variables stand for them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

HERE = "$SLURM_SUBMIT_DIR"  # the workspace: sbatch is called in it
# The names are runspec's own: no spec has a variable that begins with it, in capitals or not.
ENDS = {"\n": '"$runspec_nl"', "\r": '"$runspec_cr"'}
MEANT = {'"$runspec_nl"': "runspec_nl='\n'", '"$runspec_cr"': "runspec_cr=\"$(printf '\\r')\""}


def quoted(text: str) -> str:
    """Return *text* as one word of the script, on one line.

    >>> quoted("a b"), quoted("nvcr.io#x"), quoted("1\\r\\n2")
    ("'a b'", "'nvcr.io#x'", '1"$runspec_cr""$runspec_nl"2')
    """
    parts = [part for part in re.split(r"([\r\n])", text) if part]
    return "".join(ENDS.get(part) or shlex.quote(part) for part in parts) or "''"


def placed(path: str) -> str:
    """Return a place of the workspace, one of ours, as a word of the script.

    >>> placed("runs/a/claim")
    '"$SLURM_SUBMIT_DIR/runs/a/claim"'
    """
    assert re.fullmatch(r"[A-Za-z0-9._/-]+", path), "BUG: places of ours are plain"
    return f'"{HERE}/{path}"'


def ends(lines: Iterable[str]) -> Iterator[str]:
    """Return what makes the variables that *lines* need.

    >>> list(ends(["export A=1"])), len(list(ends([quoted("a\\rb")])))
    ([], 1)
    """
    text = "\n".join(lines)
    return (made for word, made in MEANT.items() if word in text)
