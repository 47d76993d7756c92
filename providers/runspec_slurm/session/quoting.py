"""Quoting of text in a batch script.

sbatch reads the script before any shell does. It refuses a script with a carriage return before the end of a line, and
looks for options of its own and of other schedulers (#SBATCH, #BSUB) at the beginning of lines, even inside quotes
(measured with 22.05). So values contain no newline and no carriage return: variables replace them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

HERE = "$SLURM_SUBMIT_DIR"  # the workspace, where sbatch is called
# Names that begin with runspec, in any case, are reserved: no spec has such a variable.
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
    """Return the path of a file of runspec in the workspace, as a word of the script.

    >>> placed("runs/a/claim")
    '"$SLURM_SUBMIT_DIR/runs/a/claim"'
    """
    assert re.fullmatch(r"[A-Za-z0-9._/-]+", path), "BUG: runspec's own paths are plain"
    return f'"{HERE}/{path}"'


def ends(lines: Iterable[str]) -> Iterator[str]:
    """Return the assignments of the variables that *lines* use.

    >>> list(ends(["export A=1"])), len(list(ends([quoted("a\\rb")])))
    ([], 1)
    """
    text = "\n".join(lines)
    return (made for word, made in MEANT.items() if word in text)
