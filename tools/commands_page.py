#!/usr/bin/env python3
"""Prints docs/commands.md: every verb with its arguments and options, as they are declared."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.cli.commands.verbs import ALIASES, VERBS, options_of
from runspec_jobs.options.declare import Option

HEAD = """\
# Commands

`runspec COMMAND --help` prints the same at a terminal, with two examples. Options may stand anywhere among the
arguments; after `--`, no word is an option. `tools/commands_page.py` writes this page.
"""


def page() -> Iterator[str]:
    yield HEAD
    for group in dict.fromkeys(verb.group for verb in VERBS.values()):
        yield f"## {group}\n"
        for name in (name for name, verb in VERBS.items() if verb.group == group):
            short = [f", or `runspec {alias}`" for alias, of in ALIASES.items() if of == name]
            yield f"### `runspec {name}`{''.join(short)}\n"
            yield f"{VERBS[name].title}\n"
            rows = [_row(one) for one in options_of(name).declared.values() if not one.hidden]
            if rows:
                yield "\n".join(["| | |", "| --- | --- |", *rows, ""])


def _row(option: Option) -> str:
    typed = ", ".join(f"`{name} {option.metavar}".rstrip() + "`" for name in option.names)
    more = " (required)" if option.required and option.names else ""
    several = option.several and not option.metavar.endswith("...")
    left = typed or f"`{option.metavar}{'...' * several}`".replace("|", "\\|")
    return f"| {left} | {option.help}{more} |"


if __name__ == "__main__":
    print("\n".join(page()), end="")
