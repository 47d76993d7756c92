"""Reads the words of a command line into the options of runspec and of the verb, without Typer, which is slow."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import NoReturn

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.cli.commands.verbs import ALIASES, FOREIGN, VERBS, options_of
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.errors import UsageError
from runspec_jobs.options.declare import Option, Options, flag
from runspec_jobs.options.setup_verbs import ProgramOptions

PROGRAM = "runspec"
ALIKE = 0.7  # options have more in common with each other than verbs have
RUNS = "runspec list shows the runs"
HELP: Option = flag("--help", "-h", help="Show this message and exit.")


class HelpWanted(Exception):
    """There is `--help` among the words."""


class Typed(NamedTuple):
    """The words of a line by field, in the order in which they were typed; of a flag it is the option itself."""

    options: Sequence[tuple[str, str]]
    arguments: Sequence[str]


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the options of runspec itself, in their order, and the words from the verb on."""
    typed = _sort(ProgramOptions, PROGRAM, words, until_argument=True)
    return [field for field, _ in typed.options], list(typed.arguments)


def find_verb(word: str) -> str:
    """Return the verb that *word* names. Raises UsageError if there is none."""
    name = ALIASES.get(word, word)
    if name in VERBS:
        return name
    hint = did_you_mean(word, [*VERBS, *ALIASES]) or f"choose one of {', '.join(VERBS)}"
    if word in FOREIGN:
        hint = f"write: {PROGRAM} {FOREIGN[word]}"
    raise UsageError(f"runspec has no command '{word}'", hint)


def read(verb: str, words: Sequence[str]) -> Options:
    """Return the options of *verb* in *words*.

    Raises HelpWanted if the help is asked for, and UsageError with a hint for words that cannot be read.
    """
    kind, takes_command = options_of(verb), VERBS[verb].takes_command
    own, rest = split_command(words) if takes_command else (list(words), [])
    place = f"{PROGRAM} {verb}"
    typed = _sort(kind, place, own)
    raw, unused = _by_field(kind, typed)
    if unused:
        what = "RUN -- COMMAND" if verb == "shell" else "FILE -- WORDS"
        hint = f"a command comes after --: {place} {what}" if takes_command else _see(place)
        raise UsageError(f"unexpected argument '{unused[0]}'", hint)
    _check_values(kind, raw, place)
    if any(field == "help" for field, _ in typed.options):
        raise HelpWanted
    values = {field: _read_value(kind, field, raw[field], place) for field in raw}
    for field, option in kind.declared.items():
        if option.required and field not in values:
            what = f"option '{option.names[0]}'" if option.names else f"argument '{option.metavar}'"
            raise UsageError(f"missing {what}", RUNS if field == "run" else _see(place))
    options = kind(**values, **({"words": tuple(rest)} if takes_command else {}))
    options.check()
    return options


def split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the command that `runspec shell` is to start, after the first `--`, from runspec's own words.

    >>> split_command(["mnist", "--", "git", "log", "--", "x"])
    (['mnist'], ['git', 'log', '--', 'x'])
    """
    own = list(words)
    if "--" not in own:
        return own, []
    at = own.index("--")
    return own[:at], own[at + 1 :]


def _named(kind: type[Options]) -> Mapping[str, tuple[str, Option]]:
    """Return the fields of *kind* and their options by what is typed for them."""
    declared = {**kind.declared, "help": HELP}
    return {name: (field, one) for field, one in declared.items() for name in one.names}


def _sort(
    kind: type[Options], place: str, words: Sequence[str], *, until_argument: bool = False
) -> Typed:
    """Separate options and their values from arguments, as POSIX and GNU demand.

    https://www.gnu.org/software/libc/manual/html_node/Argument-Syntax.html
    """
    named = _named(kind)
    options: list[tuple[str, str]] = []
    arguments: list[str] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        if word == "--" or (until_argument and not _is_option(word)):
            return Typed(options, [*arguments, *([] if word == "--" else [word]), *reversed(left)])
        if not _is_option(word):
            arguments.append(word)
            continue
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            rest = value if equals else None
        else:  # `-d`, and several letters in one word
            name, rest = word[:2], word[2:] or None
        if name not in named:
            _refuse_name(kind, place, name, words)
        field, option = named[name]
        if option.is_flag:
            if rest is not None and name.startswith("--"):
                raise UsageError(f"option '{name}' does not take a value", _see(place))
            left += [f"-{rest}"] if rest is not None else []
            options.append((field, name))
        elif rest is not None or left:
            options.append((field, left.pop() if rest is None else rest))
        else:
            raise UsageError(f"option '{name}' requires an argument", _see(place))
    return Typed(options, arguments)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _by_field(kind: type[Options], typed: Typed) -> tuple[dict[str, list[str]], list[str]]:
    """Return the words of each field that has some, and the arguments for which there is no field."""
    raw: dict[str, list[str]] = {}
    for field, word in typed.options:
        raw.setdefault(field, []).append(word)
    raw.pop("help", None)
    left = list(typed.arguments)
    for field in (field for field, option in kind.declared.items() if not option.names):
        count = len(left) if kind.declared[field].several else 1
        if left:
            raw[field], left = left[:count], left[count:]
    return raw, left


def _check_values(kind: type[Options], raw: Mapping[str, list[str]], place: str) -> None:
    """Raise UsageError for an option that has no value, or the next option as its value, and for a wrong choice."""
    named = _named(kind)
    for field, option in kind.declared.items():
        if field not in raw or option.several or option.is_flag:
            continue
        value, name = raw[field][-1], _shown(field, option)
        if option.names and (not value or value.partition("=")[0] in named):
            raise UsageError(f"{name} requires an argument", _see(place))
        if option.choices and value not in option.choices:
            choices = ", ".join(option.choices)
            hint = did_you_mean(value, option.choices) or f"choose one of {choices}"
            raise UsageError(f"{name}: invalid value '{value}'", hint)


def _read_value(kind: type[Options], field: str, words: Sequence[str], place: str) -> object:
    option = kind.declared[field]
    try:
        if option.is_flag:
            return True
        return tuple(map(option.read, words)) if option.several else option.read(words[-1])
    except ValueError as exc:
        raise UsageError(f"{_shown(field, option)}: {exc}", _see(place)) from exc


def _shown(field: str, option: Option) -> str:
    return option.names[0] if option.names else field


def _refuse_name(kind: type[Options], place: str, name: str, words: Sequence[str]) -> NoReturn:
    names = {*_named(kind), *(field for field, one in kind.declared.items() if not one.names)}
    within = place != PROGRAM
    hint = None
    if within:
        hint = next(filter(None, (_of_a_file(words), _of_runspec(place, name))), None)
    raise UsageError(
        f"no such option: {name}", hint or did_you_mean(name, names, alike=ALIKE) or _see(place)
    )


def _of_a_file(words: Sequence[str]) -> str | None:
    """Return a hint if one of *words* is a file whose name begins with a dash, or None."""
    file = next((word for word in words if word.startswith("-") and os.path.lexists(word)), None)
    return None if file is None else f"for the file of that name, write {shlex.quote(f'./{file}')}"


def _of_runspec(place: str, name: str) -> str | None:
    """Return a hint if *name* is an option that stands before the verb, or None."""
    if name not in _named(ProgramOptions):
        return None
    return f"write it before the command: {PROGRAM} {name} {place.removeprefix(PROGRAM).strip()}"


def _see(place: str) -> str:
    return f"see {place} --help"
