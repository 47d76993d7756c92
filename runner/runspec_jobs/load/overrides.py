"""Changes a spec by what is beside its file: a provider, settings and words that were typed, and files of variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean, format_path
from runspec_jobs.document import reader
from runspec_jobs.document.nodes import NOWHERE, Document, Map, Seq, Text, Value, resolve_kind
from runspec_jobs.errors import UsageError
from runspec_jobs.load.source import InvalidSpec, SourceFile
from runspec_jobs.regex import regex
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import literal
from runspec_jobs.spec.scaling import write_spec
from runspec_jobs.spec.types import FROM_CALLER

PART = regex(r"\.?([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]{1,6})\]|\.([0-9]{1,6})(?=[.\[]|$)")
KINDS = {"int": "a number", "float": "a number", "bool": "true or false"}
PARAM_EXAMPLE = "write --param size=7b"
NAMED = ("mounts", "outputs")  # lists whose items have names
WORDS = "--"
ENV_FILE = "env_file"
# A line of a file of variables, and what may follow its "=". Compose would replace `$NAME` outside of single quotes.
LINE = regex(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
SINGLE = regex(r"'([^']*)'[ \t]*(?:#.*)?")
DOUBLE = regex(r'"((?:[^"\\]|\\.)*)"[ \t]*(?:#.*)?')
ESCAPED = regex(r"\\(.)")
REFERENCE = regex(r"(?<!\\)\$(?:\{|[A-Za-z_])")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
EXAMPLE = "write --set cluster.nodes=4 or --set env.GREETING=hello"


class Overrides(NamedTuple):
    """What replaces or extends the fields of a spec: *settings* are `PATH=VALUE`, *words* are added to `command`.

    *params* are `NAME=VALUE`, for the parameters of the spec.
    """

    provider: str | None = None
    settings: Sequence[str] = ()
    words: Sequence[str] = ()
    params: Sequence[str] = ()


Params = Sequence[str] | Mapping[str, str | int | float | bool]


def write_params(params: Params) -> Sequence[str]:
    """Return *params* as they are typed.

    >>> write_params({"size": "7b", "train:fast": True})
    ['size=7b', 'train:fast=true']
    """
    if not isinstance(params, Mapping):
        return params
    plain = {k: str(v).lower() if isinstance(v, bool) else v for k, v in params.items()}
    return [f"{name}={value}" for name, value in plain.items()]


def apply_overrides(text: SourceFile, overrides: Overrides) -> SourceFile:
    """Return *text* with *overrides*; it is unchanged if there are none, or if it could not be parsed.

    Problems at the path of an override are reported with the option instead of a line of the file. Raises UsageError
    for a setting that is not `PATH=VALUE` or has no place in the spec, for words if the spec has a script, and for a
    parameter that the spec does not have or whose value is of another kind.
    """
    if not any(overrides) or text.document is None or not isinstance(text.document.value, dict):
        return text
    value: dict[str, Value] = text.document.value
    origins: dict[Path, str] = {}
    for change in _list_changes(overrides, text.name):
        path, new, origin = change(value)
        added = _list_added_paths(path, new, value) if origin == WORDS else [path]
        made = _replace_at(value, path, new, origin)
        assert isinstance(made, dict), "BUG: every change has a path"
        value = made
        origins |= dict.fromkeys(added, origin)
    changed_text = SourceFile(text.name, text.data, Document(value), list(text.diagnostics))
    changed_text.origins = origins
    changed_text.changed = write_spec(value)
    return changed_text


def override_job(text: SourceFile, overrides: Overrides) -> SourceFile:
    """Return a job of a chain with the settings for it, `JOB:PATH=VALUE`, and those for all jobs."""
    value = None if text.document is None else text.document.value
    name = value.get("name") if isinstance(value, dict) else None
    known = list_params(value)
    params = [
        (job, param) for job, param in map(split_job, overrides.params) if job in (None, name)
    ]
    # Without the name of a job, a parameter is that of each job that has it.
    own_params = [param for job, param in params if job or param.partition("=")[0] in known]
    own = [rest for job, rest in map(split_job, overrides.settings) if job in (None, name)]
    return apply_overrides(text, overrides._replace(settings=own, params=own_params))


def demand_jobs(overrides: Overrides, jobs: Mapping[str, Spec]) -> None:
    """Raise UsageError for a setting of a job that the chain does not have, and a parameter that no job has."""
    for job, _ in map(split_job, (*overrides.settings, *overrides.params)):
        if job is not None:
            demand_job(job, jobs)
    known = {name for spec in jobs.values() for name in spec.params}
    for job, param in map(split_job, overrides.params):
        name = param.partition("=")[0]
        if job is None and name not in known:
            hint = did_you_mean(name, known) or f"add params: {{{name}: VALUE}} to a job"
            raise UsageError(f"--param {name}: no job of the chain has this parameter", hint)


def demand_job(name: str, jobs: Collection[str]) -> None:
    """Raise UsageError if *jobs*, those of a chain, have none of that name."""
    if name not in jobs:
        raise UsageError(f"the chain has no job '{name}'", f"its jobs: {', '.join(jobs)}")


def split_job(setting: str) -> tuple[str | None, str]:
    """Return the job of `JOB:PATH=VALUE`, or None if it names none, and the rest.

    >>> split_job("train:env.A=b:c"), split_job("env.A=b:c")
    (('train', 'env.A=b:c'), (None, 'env.A=b:c'))
    """
    job, colon, _ = setting.partition("=")[0].partition(":")
    return (job, setting.removeprefix(f"{job}:")) if colon else (None, setting)


def list_params(value: Value | None) -> Mapping[str, Value]:
    """Return the parameters of a parsed spec, with their defaults."""
    given = value.get("params") if isinstance(value, dict) else None
    return given if isinstance(given, dict) else {}


Change = Callable[[dict[str, Value]], tuple[Path, Value, str]]


def _list_changes(overrides: Overrides, file: str) -> Iterator[Change]:
    """Yield a function for each change, which returns its path, the new value and its option for a given spec.

    Each sees the spec as the changes before it have left it.
    """
    if overrides.provider is not None:
        provider = Text(overrides.provider, plain=False)
        yield lambda value: (("provider",), provider, "--provider")
    for setting in overrides.settings:
        yield partial(_set, setting)
    if overrides.words:
        yield partial(_append_words, overrides.words)
    for param in overrides.params:
        yield partial(_give, param, file)


def _set(setting: str, value: dict[str, Value]) -> tuple[Path, Value, str]:
    path, new = _parse_setting(setting, value)
    return path, new, f"--set {format_path(path)}"


def _give(param: str, file: str, value: dict[str, Value]) -> tuple[Path, Value, str]:
    """Give a parameter the value that was typed, which must be of the kind of its default."""
    name, equals, text = param.partition("=")
    if not equals or not name:
        raise UsageError(f"--param: '{name}' is not NAME=VALUE", PARAM_EXAMPLE)
    known = list_params(value)
    if name not in known:
        listed = (
            f"its parameters: {', '.join(known)}" if known else f"add params: {{{name}: VALUE}}"
        )
        hint = did_you_mean(name, known) or listed
        raise UsageError(f"--param {name}: {file} has no parameter '{name}'", hint)
    default = known[name]
    kind = KINDS.get(resolve_kind(default)) if isinstance(default, Text) else None
    if kind and KINDS.get(resolve_kind(Text(text))) != kind:
        where = (
            f"{file}:{default.mark.line}:{default.mark.column}"
            if isinstance(default, Text)
            else file
        )
        message = f"--param {name}: '{text}' is not {kind}, and the default is {default} ({where})"
        raise UsageError(message, f"write --param {name}={default}, or change the default")
    return ("params", name), Text(text, plain=kind is not None), f"--param {name}"


def _append_words(added: Sequence[str], value: dict[str, Value]) -> tuple[Path, Value, str]:
    command = value.get("command")
    if not isinstance(command, list):
        message = "words after -- are added to `command`, and the spec has none"
        raise UsageError(message, "write command: [program, argument] in the spec")
    words = [Text(word, plain=False) for word in added]
    return ("command",), _copy_span(command, [*command, *words]), WORDS


def _list_added_paths(path: Path, new: Value, value: dict[str, Value]) -> list[Path]:
    """Return the paths of the words that *new*, the command, has and that of *value* has not."""
    before = value[str(path[0])]
    assert isinstance(before, list) and isinstance(new, list), "BUG: words are added to a list"
    return [(*path, at) for at in range(len(before), len(new))]


def _parse_setting(setting: str, value: Value) -> tuple[Path, Value]:
    name, equals, new = setting.partition("=")
    if not equals or not name:
        raise UsageError(f"--set: '{setting.partition('=')[0]}' is not PATH=VALUE", EXAMPLE)
    path: list[str | int] = []
    at = 0
    here: Value | None = value
    while at < len(name):
        match = PART.match(name, at)
        if match is None:
            raise UsageError(f"--set: '{name}' is not a path in a spec", EXAMPLE)
        part = _part(match, here, path)
        here = _get_inner(here, part)
        path.append(part)
        at = match.end()
    try:
        return tuple(path), reader.read(new).value if new.startswith(
            ("[", "{", '"', "'")
        ) else _parse_scalar(new)
    except reader.YamlError as exc:
        raise UsageError(f"--set {name}: {exc.flaws[0].what}", "put the value in quotes") from exc


def _parse_scalar(text: str) -> Text:
    """Return a value that is no list, mapping or quoted text: it is as long as it is, and may contain `: ` and `#`."""
    return Text(text, plain=bool(text))


def _part(match: re.Match[str], here: Value | None, path: Sequence[str | int]) -> str | int:
    """Return a key or an index; an item of a list may be called by its name, as in `mounts.code.source`."""
    if match[1] is None:
        return int(match[2] or match[3])
    if isinstance(here, list) and path and path[-1] in NAMED:
        for index, item in enumerate(here):
            if isinstance(item, dict) and item.get("name") == match[1]:
                return index
    return match[1]


def _get_inner(here: Value | None, part: str | int) -> Value | None:
    if isinstance(here, dict):
        return here.get(str(part))
    if isinstance(here, list) and isinstance(part, int) and part < len(here):
        return here[part]
    return None


def _replace_at(value: Value | None, path: Path, new: Value, origin: str) -> Value:
    """Return *value* with *new* at *path*; mappings that are missing on the way are made."""
    if not path:
        return new
    part, rest = path[0], path[1:]
    if isinstance(value, list):
        if not isinstance(part, int) or part >= len(value):
            raise UsageError(f"{origin}: the list has no item '{part}'", "count items from 0")
        items = [
            _replace_at(item, rest, new, origin) if i == part else item
            for i, item in enumerate(value)
        ]
        return _copy_span(value, items)
    if isinstance(part, int) or (value is not None and not isinstance(value, dict)):
        raise UsageError(f"{origin}: '{part}' is not a field of the spec", EXAMPLE)
    known = value or {}
    # The key of the file, if there is one, keeps its position for messages.
    key = next((name for name in known if name == part), Text(part))
    inner = _replace_at(known.get(part), rest, new, origin)
    made = Map({**known, key: inner})
    made.span = getattr(value, "span", NOWHERE)
    return made


def _copy_span(old: Value, items: Sequence[Value]) -> Seq:
    made = Seq(items)
    made.span = getattr(old, "span", NOWHERE)
    return made


# Files of variables


class EnvLine(NamedTuple):
    """A line of a file of variables: its number, and either a variable or what is wrong with it."""

    number: int
    name: str
    value: str
    what: str = ""
    hint: str | None = None


def fill_env(
    text: SourceFile, read_beside: Callable[[str], str], caller: Mapping[str, str]
) -> SourceFile:
    """Return *text* with the variables of its `env_file` and of *caller* in `env`: a record of it needs nothing else.

    *read_beside* returns the content of the file. What it raises is raised, and InvalidSpec for lines that are wrong
    and for variables that *caller* lacks.
    """
    value = None if text.document is None else text.document.value
    if not isinstance(value, dict):
        return text
    named, own = value.get(ENV_FILE), value.get("env") or {}
    # A value of another kind is a problem when the spec is read.
    if not isinstance(own, dict) or not (isinstance(named, str) or FROM_CALLER in own.values()):
        return text
    lines = list(parse_env_file(read_beside(named))) if isinstance(named, str) else []
    wanted = [name for name, given in own.items() if given == FROM_CALLER]
    wrong = [
        *_find_wrong_lines(str(named), lines),
        *(_explain_unset(name) for name in wanted if name not in caller),
    ]
    if wrong:
        text.add_problems(wrong)
        raise InvalidSpec(text)
    origins = dict(text.origins)
    rest = Map({key: item for key, item in value.items() if key != ENV_FILE})
    rest.span = getattr(value, "span", NOWHERE)
    filled: Value = rest
    for line in lines:
        if line.name not in own:
            path: Path = ("env", line.name)
            origins[path] = f"{named}:{line.number}"
            new = Text(literal(line.value), plain=False)
            filled = _replace_at(filled, path, new, origins[path])
    for name in wanted:
        origins["env", name] = f"{name} of your shell"
        new = Text(literal(caller[name]), plain=False)
        filled = _replace_at(filled, ("env", name), new, origins["env", name])
    made = SourceFile(text.name, text.data, Document(filled), text.diagnostics)
    assert isinstance(filled, dict), "BUG: it was a mapping"
    made.origins, made.changed = origins, write_spec(filled)
    return made


def _find_wrong_lines(named: str, lines: Sequence[EnvLine]) -> Iterator[Problem]:
    for line in lines:
        if line.what:
            yield Problem((ENV_FILE,), f"{named}:{line.number}: {line.what}", line.hint)


def _explain_unset(name: str) -> Problem:
    hint = f"export {name}=VALUE, or write the value here"
    return Problem(("env", name), f"{name} is not set in your shell", hint)


def parse_env_file(content: str) -> Iterator[EnvLine]:
    r"""Yield the variables in *content*, a line `NAME=VALUE` for each, as files of compose and dotenv have them.

    >>> [(line.name, line.value) for line in parse_env_file("export A = b c # d\nB='$x'\nC=\"e\\nf\"")]
    [('A', 'b c'), ('B', '$x'), ('C', 'e\nf')]
    """
    for number, raw in enumerate(content.removeprefix("\ufeff").splitlines(), 1):
        line = raw.strip()
        if line and not line.startswith("#"):
            yield _parse_env_line(number, line)


def _parse_env_line(number: int, line: str) -> EnvLine:
    match = LINE.fullmatch(line)
    if match is None:
        return EnvLine(number, "", "", "this is not NAME=VALUE", "write NAME=VALUE, or remove it")
    name, given = match.groups()
    if given.startswith("'") and (quoted := SINGLE.fullmatch(given)):
        return EnvLine(number, name, quoted[1])
    quoted = DOUBLE.fullmatch(given)
    if given.startswith(("'", '"')) and quoted is None:
        hint = "close the quotes on the same line; a line break is \\n in double quotes"
        return EnvLine(number, name, "", f"the quotes of {name} are not closed", hint)
    if REFERENCE.search(given):
        what = f"${{...}} in {name} is not replaced"
        return EnvLine(number, name, "", what, "write the value itself, or single quotes around it")
    if quoted is not None:
        return EnvLine(number, name, ESCAPED.sub(lambda m: ESCAPES.get(m[1], m[1]), quoted[1]))
    return EnvLine(number, name, re.split(r"(?:^|[ \t])#", given, maxsplit=1)[0].rstrip())
