"""Changes a spec by what was typed beside its file: a provider, settings, and words for its command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import Path, format_path
from runspec_jobs.document import reader
from runspec_jobs.document.nodes import NOWHERE, Document, Map, Seq, Text, Value
from runspec_jobs.errors import UsageError
from runspec_jobs.load.source import SourceFile
from runspec_jobs.regex import regex
from runspec_jobs.spec.scaling import write_spec

PART = regex(r"\.?([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]{1,6})\]|\.([0-9]{1,6})(?=[.\[]|$)")
NAMED = ("mounts", "outputs")  # lists whose items have names
WORDS = "--"
EXAMPLE = "write --set cluster.nodes=4 or --set env.GREETING=hello"


class Overrides(NamedTuple):
    """What replaces or extends the fields of a spec: *settings* are `PATH=VALUE`, *words* are added to `command`."""

    provider: str | None = None
    settings: Sequence[str] = ()
    words: Sequence[str] = ()


def apply_overrides(text: SourceFile, overrides: Overrides) -> SourceFile:
    """Return *text* with *overrides*; it is unchanged if there are none, or if it could not be parsed.

    Problems at the path of an override are reported with the option instead of a line of the file. Raises UsageError
    for a setting that is not `PATH=VALUE` or has no place in the spec, and for words if the spec has a script.
    """
    if not any(overrides) or text.document is None or not isinstance(text.document.value, dict):
        return text
    value: dict[str, Value] = text.document.value
    origins: dict[Path, str] = {}
    for change in _list_changes(overrides):
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
    own = []
    for setting in overrides.settings:
        job, colon, _ = setting.partition("=")[0].partition(":")
        if not colon:
            own.append(setting)
        elif job == name:
            own.append(setting.removeprefix(f"{job}:"))
    return apply_overrides(text, overrides._replace(settings=own))


Change = Callable[[dict[str, Value]], tuple[Path, Value, str]]


def _list_changes(overrides: Overrides) -> Iterator[Change]:
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


def _set(setting: str, value: dict[str, Value]) -> tuple[Path, Value, str]:
    path, new = _parse_setting(setting, value)
    return path, new, f"--set {format_path(path)}"


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
