"""Write specs and profiles as plain YAML, with the keys in their order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Text that every version of YAML reads as a string without quotes.
PLAIN = re.compile(
    r"(?!(?:true|false|yes|no|on|off|y|n|null)\Z)[A-Za-z_./$][\w./+@-]*", re.ASCII | re.IGNORECASE
)


def write_yaml(value: Mapping[str, Any]) -> str:
    """Return *value* as YAML.

    >>> write_yaml({"cluster": {"nodes": 2}, "command": ["echo", "two words"]})
    'cluster:\\n  nodes: 2\\ncommand: [echo, "two words"]\\n'
    """
    return "".join(f"{line}\n" for line in _mapping(value, ""))


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        name = _scalar(key)
        if isinstance(item, Mapping) and item:
            yield f"{indent}{name}:"
            yield from _mapping(item, indent + "  ")
        elif isinstance(item, list) and item and isinstance(item[0], Mapping):
            yield f"{indent}{name}:"
            for one in item:
                yield f"{indent}  - {_flow(one)}"
        elif isinstance(item, str) and _is_block(item):
            yield f"{indent}{name}: |"
            for line in item.splitlines():
                yield f"{indent}  {line}" if line else ""
        else:
            yield f"{indent}{name}: {_flow(item)}"


def _is_block(text: str) -> bool:
    """Return whether *text* stays the same as a literal block: lines that end with one line break.

    The first line decides by how much a block is indented. YAML has other line breaks than "\\n", too.
    """
    printable = all(c.isprintable() or c in "\t\n" for c in text)
    return (
        printable and "\n" in text and bool(re.fullmatch(r"(?![ \t\n]).*[^\n]\n", text, re.DOTALL))
    )


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        if PLAIN.fullmatch(value):
            return value
        return json.dumps(value, ensure_ascii=not value.isprintable())
    return json.dumps(value)


def write_comments(lines: Iterable[str]) -> str:
    """Return *lines* as comments of YAML, with "?" in place of each character that is not printable."""
    printable = ("".join(c if c.isprintable() else "?" for c in line) for line in lines)
    return "".join(f"# {line}\n" for line in printable)
