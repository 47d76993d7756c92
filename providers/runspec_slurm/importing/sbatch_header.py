"""Read the options in a batch script, as sbatch reads them.

https://slurm.schedmd.com/sbatch.html: sbatch takes the lines that begin with `#SBATCH` before the first command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from runspec_jobs.provider import OtherFormat, UsageError
from runspec_jobs.provider.types import ForeignFile

MARK = "#SBATCH"
SHORT = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task",
    "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "i": "input",
    "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos", "S": "core-spec",
    "s": "oversubscribe", "t": "time", "v": "verbose", "W": "wait", "w": "nodelist", "x": "exclude",
}  # fmt: skip
ALIASES = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir", "tasks": "ntasks"}
# Options without a value, or whose value must follow a "=".
FLAGS = frozenset(
    "contiguous exclusive get-user-env hold ignore-pbs nice no-kill no-requeue overcommit oversubscribe parsable "
    "propagate quiet reboot requeue spread-job test-only use-min-nodes verbose wait".split()
)
VALUED = frozenset(
    "account acctg-freq array batch bb bbf begin chdir clusters comment constraint container container-image "
    "container-mounts container-name container-workdir core-spec cpu-freq cpus-per-gpu cpus-per-task deadline "
    "delay-boot dependency distribution error exclude export export-file extra-node-info gpu-bind gpu-freq gpus "
    "gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses "
    "mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes "
    "ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output partition power "
    "prefer priority profile qos reservation segment signal sockets-per-node switches thread-spec threads-per-core "
    "time time-min tmp tres-per-task uid wait-all-nodes wckey".split()
)


class Option(NamedTuple):
    """An option with its value, which is "" for a flag, and the number of its line from 1."""

    name: str
    value: str
    line: int


@dataclass(frozen=True)
class BatchScript:
    """A batch script: the interpreter in its first line, its options, and its *body* without both.

    *late* has the numbers of lines with options that sbatch does not read, because a command precedes them.
    """

    interpreter: str
    options: tuple[Option, ...]
    body: str
    late: tuple[int, ...]


def read(file: ForeignFile) -> BatchScript:
    """Return the batch script in *file*. Raise OtherFormat if it is none: sbatch options or `#!` are missing.

    >>> script = read(ForeignFile("a.sh", "#!/bin/bash\\n#SBATCH -N 2 --mem=4G  # large\\nhostname\\n"))
    >>> script.interpreter, [option[:2] for option in script.options], script.body
    ('/bin/bash', [('nodes', '2'), ('mem', '4G')], 'hostname\\n')
    """
    text = file.text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise OtherFormat(
            f"{file.name} is no batch script: it has no #! line", "name a file for sbatch"
        )
    if not any(line.startswith(MARK) for line in lines):
        raise OtherFormat(f"{file.name} is no batch script: it has no line that begins with {MARK}")
    first = next(
        (n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines)
    )
    options = [option for n in range(1, first) for option in _read_line(file.name, n + 1, lines[n])]
    late = [n + 1 for n in range(first, len(lines)) if lines[n].startswith(MARK)]
    body = [line for line in lines[1:] if not line.startswith(MARK)]
    start = next((n for n, line in enumerate(body) if line.strip()), 0)
    text = "\n".join(body[start:]).rstrip() + "\n"
    return BatchScript(lines[0][2:].strip(), tuple(options), text, tuple(late))


def _read_line(name: str, number: int, line: str) -> Iterator[Option]:
    if not re.match(rf"{MARK}\s", line):
        return
    try:
        words = shlex.split(line[len(MARK) :], comments=True)
    except ValueError as exc:
        raise UsageError(f"{name}:{number}: a quotation mark is not closed") from exc
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            option, equals, value = word[2:].partition("=")
            option = ALIASES.get(option) or _complete(option)
            if not equals and option in VALUED and words:
                value = words.pop(0)
            yield Option(option, value, number)
        elif re.match(r"-[A-Za-z]", word):
            option = SHORT.get(word[1], word[1])
            value = word[2:].removeprefix("=")
            if not value and option not in FLAGS and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield Option(option, value, number)
        else:
            yield Option(word, "", number)


def _complete(name: str) -> str:
    """Return the option that *name* abbreviates, as getopt_long does, or *name*.

    >>> _complete("job"), _complete("mem"), _complete("nt")
    ('job-name', 'mem', 'nt')
    """
    known = FLAGS | VALUED
    meant = [option for option in known if option.startswith(name)]
    return meant[0] if name not in known and len(meant) == 1 else name
