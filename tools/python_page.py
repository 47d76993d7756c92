#!/usr/bin/env python3
"""Prints docs/python-reference.md: every public name of `runspec_jobs.api` with its signature and docstring."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator

from runspec_jobs import api

HEAD = """\
# Python reference

Everything in `runspec_jobs.api`, from its docstrings; [Python](python.md) is a walk through it.
`tools/python_page.py` writes this page.
"""


def page() -> Iterator[str]:
    yield HEAD
    functions = [name for name in api.__all__ if inspect.isfunction(getattr(api, name))]
    classes = [name for name in api.__all__ if inspect.isclass(getattr(api, name))]
    yield "## Functions\n"
    for name in functions:
        yield from _entry("###", name, getattr(api, name))
    yield "## Classes\n"
    for name in classes:
        yield from _describe_class(name, getattr(api, name))
    yield "## Types\n"
    for name in api.__all__:
        if name not in (*functions, *classes):
            yield f"### `{name}`\n\n`{_show_type(getattr(api, name))}`\n"


def _show_type(alias: object) -> str:
    return re.sub(r"\b(?:[a-z_]+\.)+", "", str(alias))


def _entry(level: str, name: str, function: object) -> Iterator[str]:
    yield f"{level} `{name}`\n"
    yield f"```python\n{name}{_sign(function)}\n```\n"
    yield f"{inspect.getdoc(function) or ''}\n"


def _sign(function: object) -> str:
    """Return the signature as it is written, without quotes and without `self`."""
    assert callable(function)
    text = str(inspect.signature(function)).replace("'", "")
    text = re.sub(r"<function .*? at 0x[0-9a-f]+>", "...", text)
    return re.sub(r"\(self(, )?", "(", text, count=1)


def _describe_class(name: str, kind: type) -> Iterator[str]:
    yield f"### `{name}`\n"
    # A named tuple without a docstring has one of its fields, and a model that of its base.
    text = kind.__doc__ or ""
    yield f"{inspect.cleandoc(text)}\n" if not text.startswith(f"{name}(") else ""
    if issubclass(kind, enum.Enum):
        yield ", ".join(f"`{member.name}`" for member in kind) + "\n"
    if fields := getattr(kind, "_fields", ()):
        yield "Fields: " + ", ".join(f"`{field}`" for field in fields) + "\n"
    rows = [
        f"| `{member}{_sign(value) if inspect.isfunction(value) else ''}` | {_first_line(value)} |"
        for member, value in vars(kind).items()
        if not member.startswith("_") and isinstance(value, property) | inspect.isfunction(value)
    ]
    if rows and not issubclass(kind, enum.Enum) and name != "Spec":
        yield "\n".join(["| member | |", "| --- | --- |", *(_escape(row) for row in rows), ""])


def _first_line(member: object) -> str:
    """Return the docstring as one line: a cell of a table has no other."""
    return " ".join((inspect.getdoc(member) or "").split()).replace("|", "\\|")


def _escape(row: str) -> str:
    """Escape the bars in the signature, which is the first cell: ``| `a() -> b | None` | text |``."""
    cell, _, rest = row[2:].partition("` | ")
    bare = cell.replace("|", "\\|")
    return f"| {bare}` | {rest}"


if __name__ == "__main__":
    print("\n".join(page()), end="")
