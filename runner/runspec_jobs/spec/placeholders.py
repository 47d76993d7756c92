"""The placeholders of a command, whose values are known only inside the job, and the tasks of a sweep.

Inside the job, runspec_agent/inside.sh replaces `${mounts.NAME}`, `${outputs.NAME}` and `${sweep.NAME}`
by the values of environment variables, which `variable` names; `$${` stands for a plain `${`. `rules`
refuses any other `${word.word}`: it means nothing to a shell, so it is a mistyped placeholder.
`${params.NAME}` is replaced before a spec is checked, but in scripts, which read its variable.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_agent.base import program_hooks
from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.document.nodes import Map, Seq, Text, Value
from runspec_jobs.regex import regex
from runspec_jobs.spec.interpreter import SHELLS, interpreter
from runspec_jobs.spec.model import PARAM, Spec
from runspec_jobs.spec.models.container import UNLIMITED
from runspec_jobs.spec.sweep import Random, Sweep
from runspec_jobs.spec.types import KIB

KINDS = {
    "mounts": "RUNSPEC_MOUNT_",
    "outputs": "RUNSPEC_OUTPUT_",
    "sweep": "RUNSPEC_SWEEP_",
    "params": PARAM,
}
SMOKE = (
    "RUNSPEC_SMOKE"  # in the env of a smoke test whose nodes first check that they reach each other
)
# A placeholder after a further `$` is literal only if its name is valid, which is also the rule of inside.sh; without
# that `$` an invalid name matches too, so that it can be reported.
PLACE = regex(
    r"(?:(\$)|(?<!\$))\$\{(?:(mounts|outputs|sweep|params)\.((?(1)[A-Za-z0-9_-]+|[^}]*))"
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


def find_script_words(command: Sequence[object]) -> frozenset[int]:
    """Return which words of *command* a shell reads as a script: those after `-c`.

    >>> sorted(find_script_words(["env", "A=1", "/bin/bash", "-e", "-lc", "echo $1", "bash", "x"]))
    [5]
    """
    found, in_shell, before = [], False, ""
    for number, word in enumerate(command[:-1]):
        text = str(word)
        if in_shell and re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", text):
            found.append(number + 1)
        is_option = text[:1] in ("-", "+") or re.fullmatch(r"[-+][A-Za-z]*o", before) is not None
        in_shell = text.rpartition("/")[2] in SHELLS or (in_shell and is_option)
        before = text
    return frozenset(found)


# What a file is found by, or what the values of parameters are checked against.
WITHOUT_PARAMS = ("apiVersion", "name", "provider", "params", "secrets")
SCRIPTS = ("run", "smoke", "setup")


class Resolved(NamedTuple):
    """A spec with the values of its parameters, the problems of these, and the parameter of each field that has one."""

    value: Value
    problems: tuple[Problem, ...]
    names: Mapping[Path, str]


def resolve_params(value: Value) -> Resolved:
    """Return *value*, a parsed spec, with the values of its `params` in place of `${params.NAME}`.

    Placeholders stay in what a shell reads as a script: `argv` refers to variables there, since a value with quotes or
    `$(...)` would become part of the program.
    """
    given = value.get("params") if isinstance(value, dict) else None
    resolver = _Resolver(given if isinstance(given, dict) else {})
    return Resolved(resolver.walk(value, ()), tuple(resolver.problems), resolver.names)


class _Resolver:
    def __init__(self, params: Mapping[str, Value]) -> None:
        self.params = params
        self.problems: list[Problem] = []
        self.names: dict[Path, str] = {}

    def walk(self, value: Value, at: Path, *, is_script: bool = False) -> Value:
        if isinstance(value, Text):
            return self._fill(value, at, is_script=is_script) if "${params." in value else value
        if isinstance(value, Map):
            made = Map()
            for key, inner in value.items():
                made[key] = self.walk(inner, (*at, str(key)), is_script=not at and key in SCRIPTS)
            made.span = value.span
            return made
        if not isinstance(value, Seq):
            return value
        scripts = find_script_words(value) if at in (("command",), ("smoke",)) else ()
        items = Seq(self.walk(v, (*at, i), is_script=i in scripts) for i, v in enumerate(value))
        items.span = value.span
        return items

    def _fill(self, text: Text, at: Path, *, is_script: bool) -> Text:
        used = [match for match in PLACE.finditer(text) if _is_param(match)]
        wrong = [problem for match in used for problem in self._check(match, at)]
        self.problems += wrong
        if wrong or is_script or not used:
            return text
        self.names[at] = used[0][3]
        whole = self.params[used[0][3]]
        if used[0][0] == text and isinstance(whole, Text):
            return Text(whole, whole.plain, text.span)
        filled = PLACE.sub(lambda m: str(self.params[m[3]]) if _is_param(m) else m[0], text)
        return Text(filled, text.plain, text.span)

    def _check(self, match: re.Match[str], at: Path) -> Iterator[Problem]:
        if at[0] in WITHOUT_PARAMS:
            yield Problem(at, f"'{match[0]}' cannot be part of {at[0]}", "write the value itself")
        elif match[3] not in self.params:
            hint = did_you_mean(match[3], self.params) or f"add params: {{{match[3]}: VALUE}}"
            yield Problem(at, f"there is no '{match[3]}' in params", hint)


def _is_param(match: re.Match[str]) -> bool:
    """Return whether a match of PLACE is a parameter, and not literal."""
    return match[2] == "params" and not match[1]


# Becomes the program that the shell code in that variable sets: see `runspec_agent.base.image_entrypoint`.
ENTER = 'eval "$RUNSPEC_ENTRYPOINT"; unset RUNSPEC_ENTRYPOINT; exec "$@"'
ENTRYPOINT = ("/bin/sh", "-c", ENTER, "entrypoint")


def argv(spec: Spec, entrypoint: tuple[str, ...] = ENTRYPOINT) -> tuple[str, ...]:
    """Return the arguments of inside.sh: the command as written, or a call of /bin/sh with the script.

    A setup comes before them, in the form that `runspec_agent.base.program_hooks` reads, and a shell that sets the
    limits before each of the two. A script whose first line is `#!` and an interpreter is read by that one. Only a
    shell knows references to variables: in other scripts, inside.sh replaces placeholders, as in words of a command.
    *entrypoint* runs the ENTRYPOINT of the image with the words after it.

    >>> from runspec_jobs.spec.model import Spec, Ulimits
    >>> argv(Spec.model_construct(command=("a",), ulimits=Ulimits(stack=65536)))[3:]
    ('ulimits', 'stack=s=64', '--', 'a')
    """
    program = spec.run if spec.command is None else spec.command
    if program is None:
        assert spec.container.entrypoint, "BUG: rules let a spec through that has nothing to run"
        program = (*entrypoint, *spec.container.args)
    words = _limited(spec, _program_words(program))
    if spec.setup is None:
        return words
    return program_hooks.wrap(_limited(spec, _program_words(spec.setup)), words)


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
        scripts = find_script_words(program)
        return tuple(_refer_to_params(w) if i in scripts else w for i, w in enumerate(program))
    if (reads := interpreter(program)) is not None:
        text = program.lstrip("\n")
        return reads.argv(shell_script(text) if reads.is_shell else text)
    return ("/bin/sh", "-e", "-c", shell_script(program))


def _refer_to_params(text: str) -> str:
    """Return *text*, a word that a shell reads as a script, with the variables of parameters for their placeholders."""

    def substitute(match: re.Match[str]) -> str:
        return "${" + variable("params", match[3]) + "}" if _is_param(match) else match[0]

    return PLACE.sub(substitute, text)


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
