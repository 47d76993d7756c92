"""The words of a command line: options of a verb may stand anywhere among its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from runspec_jobs.cli import arguments

Words = list[str]
VERBS = sorted(chain.from_iterable(arguments.GROUPS.values()))


def actions(verb: str) -> list[argparse.Action]:
    """Return what *verb* takes; of options that exclude each other, the first."""
    (verbs,) = arguments.parser(verb)._subparsers._group_actions  # type: ignore[union-attr]  # argparse lists them nowhere else
    parser: argparse.ArgumentParser = verbs.choices[verb]  # type: ignore[index]  # these are its subparsers
    excluded = [a for group in parser._mutually_exclusive_groups for a in group._group_actions[1:]]
    return [a for a in parser._actions if a.dest != "help" and a not in excluded]


def value(action: argparse.Action, number: int) -> str:
    if action.choices is not None:
        return str(next(iter(action.choices)))
    return str(number) if action.type is not None else f"word{number}"


def positional(verb: str) -> Words:
    takes = [a for a in actions(verb) if not a.option_strings]
    twice = [a for action in takes for a in ([action, action] if action.nargs == "+" else [action])]
    return [value(action, number) for number, action in enumerate(twice)]


def options(verb: str) -> list[Words]:
    takes = [a for a in actions(verb) if a.option_strings]
    return [
        [a.option_strings[0], *([] if a.nargs == 0 else [value(a, number)])]
        for number, a in enumerate(takes, 1)
    ]


def placed(verb: str) -> Iterator[Words]:
    """Yield the command lines that have all options in one place, and those that have one apart from the others."""
    words, found = positional(verb), options(verb)
    for at in range(len(words) + 1):
        yield [*words[:at], *chain(*found), *words[at:]]
        for option in found:
            others = chain(*(other for other in found if other is not option))
            yield [*others, *words[:at], *option, *words[at:]]


def parsed(verb: str, words: Words) -> dict[str, Any]:
    return vars(arguments.parser(verb).parse_args([verb, *words]))


@pytest.mark.parametrize("verb", VERBS)
def test_options_stand_anywhere_among_the_arguments_of_a_verb(verb: str) -> None:
    words = positional(verb)
    expected = parsed(verb, [*chain(*options(verb)), *words])

    for line in placed(verb):
        assert parsed(verb, line) == expected, line
    flat = chain.from_iterable(v if isinstance(v, list) else [v] for v in expected.values())
    assert set(words) <= set(flat)


def test_after_two_dashes_no_word_is_an_option() -> None:
    found = parsed("fetch", ["--", "run", "--output"])

    assert (found["run"], found["to"], found["output"]) == ("run", "--output", None)
