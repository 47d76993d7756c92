"""The words of a command: which of them stand for something only known inside the job.

`${mounts.NAME}`, `${outputs.NAME}` and `${sweep.NAME}` are put in inside the job, from the
environment variables named here; `$${` stands for a plain `${`. See runspec_agent/inside.sh. Any other
`${word.word}` is refused by `rules`: no shell has it, so it is a placeholder that was mistyped.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.sweep import Random, Sweep

KINDS = {"mounts": "RUNSPEC_MOUNT_", "outputs": "RUNSPEC_OUTPUT_", "sweep": "RUNSPEC_SWEEP_"}
SMOKE = "RUNSPEC_SMOKE"  # in the env of a smoke test, where its nodes first try to reach each other
# What a `$` before it makes literal has a name, as inside.sh wants it; without one, what has none is a slip.
PLACE = re.compile(
    r"(?:(\$)|(?<!\$))\$\{(?:(mounts|outputs|sweep)\.((?(1)[A-Za-z0-9_-]+|[^}]*))"
    r"|([A-Za-z_][^}.$]*)\.([A-Za-z0-9_-]+))\}"
)
# What stands before the dot, unless it is a shell's ${NAME:-a.b}.
WORD = re.compile(r"[A-Za-z0-9_-]+")


def variable(kind: str, name: str) -> str:
    """Give the environment variable that holds *name* inside the job.

    >>> variable("mounts", "my-code")
    'RUNSPEC_MOUNT_MY_CODE'
    """
    return KINDS[kind] + name.upper().replace("-", "_")


def smoke_name(name: str) -> str:
    """Give what the smoke test of the spec called *name* is called."""
    return f"{name}-smoke"


def places(text: str) -> Iterator[tuple[str, str]]:
    """Give the (kind, name) of every place in *text* that is filled in inside the job.

    >>> list(places("${mounts.code}/x $${mounts.data} $${sweep.a:-${sweep.lr}}"))
    [('mounts', 'code'), ('sweep', 'lr')]
    """
    for escaped, kind, name, _, _ in PLACE.findall(text):
        if kind and not escaped:
            yield kind, name


def unknown_places(text: str) -> Iterator[tuple[str, str]]:
    """Give the (word, word) of every `${word.word}` in *text* that is no place of ours.

    >>> list(unknown_places("${mount.code} $${mount.code} ${sweep.lr} ${HOST:-a.b}"))
    [('mount', 'code')]
    """
    for escaped, _, _, kind, name in PLACE.findall(text):
        if WORD.fullmatch(kind) and not escaped:
            yield kind, name


def literal(text: str) -> str:
    """Give *text* with one more $ before everything that would be taken for a place.

    >>> literal("${mounts.code} ${HOME:-a.b} $${a.b}")
    '$${mounts.code} ${HOME:-a.b} $$${a.b}'
    """

    def escaped(match: re.Match[str]) -> str:
        return "$" * bool(match[1] or match[2] or WORD.fullmatch(match[4])) + match[0]

    return PLACE.sub(escaped, text)


def unescaped(text: str) -> str:
    """Give *text*, in which nothing is filled in, with `${` for each `$${` that stands before a place.

    >>> unescaped("$${mounts.code} $${HOME}")
    '${mounts.code} $${HOME}'
    """
    return PLACE.sub(lambda match: match[0][1:] if match[1] else match[0], text)


def shell_script(text: str) -> str:
    """Give *text* with every place as a reference to its variable, for a shell to fill in.

    The value itself never becomes part of a script.

    >>> shell_script('ls "${mounts.code}"'), shell_script("${LR:-${sweep.lr}}")
    ('ls "${RUNSPEC_MOUNT_CODE}"', '${LR:-${RUNSPEC_SWEEP_LR}}')
    """

    def name(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        return "${" + variable(match[2], match[3]) + "}" if match[2] else match[0]

    return PLACE.sub(name, text)


def argv(spec: Spec) -> tuple[str, ...]:
    """Give the words that inside.sh is given: the command as written, or the script for /bin/sh."""
    if spec.command is not None:
        return spec.command
    assert spec.run is not None, "BUG: rules let a spec through that has nothing to run"
    return ("/bin/sh", "-e", "-c", shell_script(spec.run))


class Axis(NamedTuple):
    """One digit of the number of a task: the parameters that go together, and their values in turn."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def axes(sweep: Sweep) -> tuple[Axis, ...]:
    """Give what a sweep is the product of, in its order; lists of equal length have been checked.

    >>> axes({"lr": ("1", "2")})
    (Axis(names=('lr',), rows=(('1',), ('2',))),)
    """
    return tuple(_axis(name, part) for name, part in sweep.items())


def _axis(name: str, part: Any) -> Axis:
    if isinstance(part, Random):
        return Axis(tuple(part.draw), part.rows)
    if isinstance(part, Mapping):
        return Axis(tuple(part), tuple(zip(*part.values(), strict=True)))
    return Axis((name,), tuple((value,) for value in part))


def swept(sweep: Sweep) -> list[str]:
    """Give the names of all parameters, in their order."""
    found: list[str] = []
    for name, part in sweep.items():
        given = part.draw if isinstance(part, Random) else part
        found += given if isinstance(given, Mapping) else [name]
    return found


def length(sweep: Sweep) -> int:
    """Give how many tasks there are, without making any; of lists, the first one counts.

    >>> length({"lr": ("1", "2"), "list": {"a": ("1", "2", "3"), "b": ("4", "5", "6")}})
    6
    """
    return math.prod(map(_length, sweep.values()))


def _length(part: Any) -> int:
    if isinstance(part, Random):
        return part.trials
    return len(next(iter(part.values())) if isinstance(part, Mapping) else part)


def tasks(spec: Spec) -> tuple[Mapping[str, str], ...]:
    """Give the values of every task of the sweep, the last part of it changing fastest.

    A spec without a sweep is one task without values.
    """
    parts = axes(spec.sweep)
    names = [name for axis in parts for name in axis.names]
    return tuple(
        dict(zip(names, itertools.chain.from_iterable(rows), strict=True))
        for rows in itertools.product(*(axis.rows for axis in parts))
    )
