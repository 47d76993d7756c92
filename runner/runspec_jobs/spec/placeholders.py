"""The placeholders of a command, whose values are known only inside the job, and the tasks of a sweep.

Inside the job, runspec_agent/inside.sh replaces `${mounts.NAME}`, `${outputs.NAME}` and `${sweep.NAME}`
by the values of environment variables, which `variable` names; `$${` stands for a plain `${`. `rules`
refuses any other `${word.word}`: it means nothing to a shell, so it is a mistyped placeholder.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_agent.base import setup_step
from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.regex import regex
from runspec_jobs.spec.interpreter import interpreter
from runspec_jobs.spec.model import UNLIMITED, Spec
from runspec_jobs.spec.sweep import Random, Sweep
from runspec_jobs.spec.types import KIB

KINDS = {"mounts": "RUNSPEC_MOUNT_", "outputs": "RUNSPEC_OUTPUT_", "sweep": "RUNSPEC_SWEEP_"}
SMOKE = (
    "RUNSPEC_SMOKE"  # in the env of a smoke test whose nodes first check that they reach each other
)
# A placeholder after a further `$` is literal only if its name is valid, which is also the rule of inside.sh; without
# that `$` an invalid name matches too, so that it can be reported.
PLACE = regex(
    r"(?:(\$)|(?<!\$))\$\{(?:(mounts|outputs|sweep)\.((?(1)[A-Za-z0-9_-]+|[^}]*))"
    r"|([A-Za-z_][^}.$]*)\.([A-Za-z0-9_-]+))\}"
)
# The word before the dot of a mistyped placeholder; the shell's ${NAME:-a.b} does not match.
WORD = regex(r"[A-Za-z0-9_-]+")


def variable(kind: str, name: str) -> str:
    """Return the environment variable that holds *name* inside the job.

    >>> variable("mounts", "my-code")
    'RUNSPEC_MOUNT_MY_CODE'
    """
    return KINDS[kind] + name.upper().replace("-", "_")


def make_smoke_name(name: str) -> str:
    """Return the name of the smoke test of the spec called *name*."""
    return f"{name}-smoke"


def find_placeholders(text: str) -> Iterator[tuple[str, str]]:
    """Yield the (kind, name) of every placeholder in *text*.

    >>> list(find_placeholders("${mounts.code}/x $${mounts.data} $${sweep.a:-${sweep.lr}}"))
    [('mounts', 'code'), ('sweep', 'lr')]
    """
    for escaped, kind, name, _, _ in PLACE.findall(text):
        if kind and not escaped:
            yield kind, name


def find_unknown_placeholders(text: str) -> Iterator[tuple[str, str]]:
    """Yield both words of every `${word.word}` in *text* that is not a placeholder.

    >>> list(find_unknown_placeholders("${mount.code} $${mount.code} ${sweep.lr} ${HOST:-a.b}"))
    [('mount', 'code')]
    """
    for escaped, _, _, kind, name in PLACE.findall(text):
        if WORD.fullmatch(kind) and not escaped:
            yield kind, name


def literal(text: str) -> str:
    """Return *text* with one more `$` before everything that would be read as a placeholder.

    >>> literal("${mounts.code} ${HOME:-a.b} $${a.b}")
    '$${mounts.code} ${HOME:-a.b} $$${a.b}'
    """

    def escape(match: re.Match[str]) -> str:
        return "$" * bool(match[1] or match[2] or WORD.fullmatch(match[4])) + match[0]

    return PLACE.sub(escape, text)


def unescape_placeholders(text: str) -> str:
    """Return *text* with `${` instead of each `$${` before a placeholder; no placeholder is replaced by its value.

    >>> unescape_placeholders("$${mounts.code} $${HOME}")
    '${mounts.code} $${HOME}'
    """
    return PLACE.sub(lambda match: match[0][1:] if match[1] else match[0], text)


def shell_script(text: str) -> str:
    """Return *text* with a reference to the environment variable in place of each placeholder, for a shell.

    The value itself never becomes part of a script.

    >>> shell_script('ls "${mounts.code}"'), shell_script("${LR:-${sweep.lr}}")
    ('ls "${RUNSPEC_MOUNT_CODE}"', '${LR:-${RUNSPEC_SWEEP_LR}}')
    """

    def substitute(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        # A value with quotes or `$(...)` would otherwise become part of the program.
        return "${" + variable(match[2], match[3]) + "}" if match[2] else match[0]

    return PLACE.sub(substitute, text)


# Sets the soft limits of NAME=OPTION=VALUE... and becomes the program after `--`. A process without root's permissions
# cannot raise a hard limit; an option that a shell does not have fails as well.
SET_LIMITS = """\
while [ "$1" != -- ]; do
  _rs_v=${1##*=} _rs_o=${1#*=} _rs_o=-${_rs_o%=*}
  for _rs_w in -S ''; do
    (ulimit $_rs_w $_rs_o $_rs_v) 2>/dev/null && ulimit $_rs_w $_rs_o $_rs_v && shift && continue 2
  done
  printf 'runspec: ulimits: %s cannot be %s: the hard limit on this node is ' "${1%%=*}" $_rs_v >&2
  ulimit -H $_rs_o >&2
  exit 2
done
shift
exec "$@"
"""
LIMIT_OPTIONS = {"memlock": "l", "nofile": "n", "stack": "s"}


def argv(spec: Spec) -> tuple[str, ...]:
    """Return the arguments of inside.sh: the command as written, or a call of /bin/sh with the script.

    A setup comes before them, in the form that `runspec_agent.base.setup_step` reads, and a shell that sets the limits
    before each of the two. A script whose first line is `#!` and an interpreter is read by that one. Only a shell knows
    references to variables: in other scripts, inside.sh replaces the placeholders, as in words of a command.

    >>> from runspec_jobs.spec.model import Spec, Ulimits
    >>> argv(Spec.model_construct(command=("a",), ulimits=Ulimits(stack=65536)))[3:]
    ('ulimits', 'stack=s=64', '--', 'a')
    """
    program = spec.run if spec.command is None else spec.command
    assert program is not None, "BUG: rules let a spec through that has nothing to run"
    words = _limited(spec, _program_words(program))
    if spec.setup is None:
        return words
    return setup_step.wrap(_limited(spec, _program_words(spec.setup)), words)


def _limited(spec: Spec, program: tuple[str, ...]) -> tuple[str, ...]:
    limits = [
        f"{name}={LIMIT_OPTIONS[name]}={_write_limit(name, value)}"
        for name, value in spec.ulimits.given.items()
    ]
    if not limits:
        return program
    return ("/bin/sh", "-c", SET_LIMITS, "ulimits", *limits, "--", *program)


def _write_limit(name: str, value: int) -> str:
    """Return a limit as `ulimit` of a shell takes it: in KiB, or files."""
    if value == UNLIMITED:
        return "unlimited"
    return str(value if name == "nofile" else value // KIB)


def _program_words(program: str | tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(program, str):
        return program
    if (reads := interpreter(program)) is not None:
        text = program.lstrip("\n")
        return reads.argv(shell_script(text) if reads.is_shell else text)
    return ("/bin/sh", "-e", "-c", shell_script(program))


class Axis(NamedTuple):
    """One factor of the product that a sweep is: parameters that change together, and their values in order."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def list_axes(sweep: Sweep) -> tuple[Axis, ...]:
    """Return the factors whose product *sweep* is, in its order; the lists of a factor must be equally long.

    >>> list_axes({"lr": ("1", "2")})
    (Axis(names=('lr',), rows=(('1',), ('2',))),)
    """
    return tuple(_make_axis(name, part) for name, part in sweep.items())


def _make_axis(name: str, part: Any) -> Axis:
    if isinstance(part, Random):
        return Axis(tuple(part.draw), part.rows)
    if isinstance(part, Mapping):
        return Axis(tuple(part), tuple(zip(*part.values(), strict=True)))
    return Axis((name,), tuple((value,) for value in part))


def list_parameters(sweep: Sweep) -> list[str]:
    """Return the names of all parameters, in the order of the sweep."""
    names: list[str] = []
    for name, part in sweep.items():
        given = part.draw if isinstance(part, Random) else part
        names += given if isinstance(given, Mapping) else [name]
    return names


def count_tasks(sweep: Sweep) -> int:
    """Return the number of tasks without making them; where lists go together, the first one is counted.

    >>> count_tasks({"lr": ("1", "2"), "list": {"a": ("1", "2", "3"), "b": ("4", "5", "6")}})
    6
    """
    return math.prod(map(_count_values, sweep.values()))


def _count_values(part: Any) -> int:
    if isinstance(part, Random):
        return part.trials
    return len(next(iter(part.values())) if isinstance(part, Mapping) else part)


def tasks(spec: Spec) -> tuple[Mapping[str, str], ...]:
    """Return the parameter values of every task of the sweep; the last parameter changes fastest.

    A spec without a sweep has one task without values.
    """
    parts = list_axes(spec.sweep)
    names = [name for axis in parts for name in axis.names]
    return tuple(
        dict(zip(names, itertools.chain.from_iterable(rows), strict=True))
        for rows in itertools.product(*(axis.rows for axis in parts))
    )
