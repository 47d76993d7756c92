"""The interpreter that the first line of a script names, as in `#!/usr/bin/env python3`, and how a job runs it.

Linux starts such a script with the interpreter, the rest of the line as one argument, and the path of the script:
https://man7.org/linux/man-pages/man2/execve.2.html. A job has no such file, so a shell writes it first.
"""

from __future__ import annotations

import shlex

from runspec_agent.base.light_typing import NamedTuple

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "yash"})
# `sh -c OBEY NEEDED SCRIPT INTERPRETER [ARGUMENT...]`. The file is made with O_EXCL in a folder of the node that is
# deleted with the job; in a container, where there may be none, /tmp goes with the container.
OBEY = """\
for p in "$2" "$0"; do
command -v -- "$p" >/dev/null 2>&1 || {
echo "runspec: the script begins with #!, and '$p' is not installed here" >&2
exit 127
}
done
d=${RUNSPEC_SCRIPTS-} n=0
[ -d "$d" ] && [ -w "$d" ] || d=${TMPDIR:-/tmp}
until (umask 77; set -C; printf %s "$1" >"$d/script.$$.$n") 2>/dev/null; do
n=$((n+1))
[ $n -lt 9 ] || { echo "runspec: the script cannot be written to $d" >&2; exit 73; }
done
f=$d/script.$$.$n
shift
unset RUNSPEC_SCRIPTS
exec "$@" "$f"
"""


class Interpreter(NamedTuple):
    """What a `#!` line says: *words* before the path of the script, and *program*, which reads the script.

    *is_shell* is whether that is a shell, for which references to variables can stand in the script.
    """

    words: tuple[str, ...]
    program: str
    is_shell: bool

    def argv(self, script: str) -> tuple[str, ...]:
        """Return the words that run *script*. A shell gets -e, as for scripts without `#!`."""
        given = (*self.words, "-e") if self.is_shell else self.words
        return ("/bin/sh", "-c", OBEY, self.program, script, *given)


def interpreter(text: str) -> Interpreter | None:
    """Return what the `#!` line at the beginning of *text* says, or None if there is none.

    Empty lines before it do not count, because `run: |` may leave some.

    >>> interpreter("#!/usr/bin/env -S python3 -u\\nprint()").words
    ('/usr/bin/env', 'python3', '-u')
    >>> interpreter("#! /bin/bash -x -u \\n").words
    ('/bin/bash', '-x -u')
    >>> interpreter("echo hi") is None
    True
    """
    head, _, _ = text.lstrip("\n").partition("\n")
    if not head.startswith("#!") or not (line := head[2:].strip(" \t\r")):
        return None
    path, _, argument = line.replace("\t", " ").partition(" ")
    words = (path, *([argument.strip()] if argument.strip() else []))
    if path.rpartition("/")[2] == "env":
        words = (path, *_split(argument.strip()))
        program = next((w for w in words[1:] if not w.startswith("-") and "=" not in w), path)
        # With options of its own, env has one argument, which it splits itself: what it starts is its own matter.
        program = program if " " not in program else path
    else:
        program = path
    return Interpreter(words, program, program.rpartition("/")[2] in SHELLS)


def _split(argument: str) -> tuple[str, ...]:
    """Return the words of the argument of env: -S splits it, and not every env has that option.

    Text with escapes or variables is left to env.
    """
    if not argument.startswith(("-S", "--split-string")):
        return (argument,) if argument else ()
    text = argument.removeprefix("-S").removeprefix("--split-string").lstrip(" =")
    if "\\" in text or "$" in text:
        return (argument,)
    try:
        return tuple(shlex.split(text))
    except ValueError:  # quotes that are never closed
        return (argument,)
