"""Adds settings of a provider to the text of a profile, whose comments and other settings stay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runspec_jobs.document import reader
from runspec_jobs.document.nodes import Value
from runspec_jobs.provider.yaml_writer import write_yaml


def add_settings(text: str, provider: str, settings: Mapping[str, Any]) -> str | None:
    """Return *text* with *settings* of *provider*, which it does not have; None if it has no place for them.

    >>> print(add_settings("providers:\\n  local: {}  # this machine\\n", "tiny", {"root": "/x"}), end="")
    providers:
      tiny:
        root: /x
      local: {}  # this machine
    """
    if not text.strip():
        return write_yaml({"providers": {provider: dict(settings)}})
    lines = text.splitlines(keepends=True)
    for above in (("providers", provider), ("providers",)):
        at = _find_line(lines, above)
        if at is None:
            continue
        indent = _find_indent(lines, at)
        missing: Mapping[str, Any] = settings if len(above) == 2 else {provider: dict(settings)}
        added = "".join(f"{indent}{line}\n" for line in write_yaml(missing).splitlines())
        new = "".join([*lines[: at + 1], added, *lines[at + 1 :]])
        return new if _is_same_but(text, new, provider, settings) else None
    return None


def _find_line(lines: list[str], keys: tuple[str, ...]) -> int | None:
    """Return the number of the line with the last of *keys*, each in the block of the one before, and nothing else."""
    at, indent = -1, -1
    for key in keys:
        for number in range(at + 1, len(lines)):
            match = re.fullmatch(r"( *)([^\s:#]+):[ \t]*(#.*)?\n?", lines[number])
            if match is None:
                continue
            depth = len(match[1])
            if depth <= indent:
                return None
            if match[2] == key and (indent >= 0 or depth == 0):
                at, indent = number, depth
                break
        else:
            return None
    return at


def _find_indent(lines: list[str], at: int) -> str:
    """Return the indent of the first key below the line *at*, or else two spaces more than its own."""
    own = lines[at][: len(lines[at]) - len(lines[at].lstrip(" "))]
    for line in lines[at + 1 :]:
        if line.strip() and not line.lstrip().startswith("#"):
            indent = line[: len(line) - len(line.lstrip(" "))]
            return indent if len(indent) > len(own) else own + "  "
    return own + "  "


def _is_same_but(old: str, new: str, provider: str, settings: Mapping[str, Any]) -> bool:
    """Return whether *new* differs from *old* only by the *settings* of *provider*."""
    before, after = _read(old), _read(new)
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    providers, added = before.get("providers") or {}, _read(write_yaml(settings))
    if not isinstance(providers, dict) or not isinstance(added, dict):
        return False
    known = providers.get(provider) or {}
    if not isinstance(known, dict) or known.keys() & added.keys():
        return False
    return after == {**before, "providers": {**providers, provider: {**added, **known}}}


def _read(text: str) -> Value | None:
    try:
        return reader.read(text.encode()).value
    except reader.YamlError:  # text that is not YAML differs from any other
        return None
