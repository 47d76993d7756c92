"""What is wrong with a text as YAML, in words a user would say; libyaml's own are for its authors."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from runspec_jobs.document.nodes import Mark

OPEN_QUOTES = "quotes that are never closed"
COLON = "write key: value, with a space after the colon"
TEXT = "put it in quotes if it is text"
# libyaml's words, ours, and the hint.
WORDS: dict[str, tuple[str, str | None]] = {
    "could not find expected ':'": ("a key without a ': ' after it", COLON),
    "mapping values are not allowed in this context": (
        "a key where the value before it goes on",
        "align the keys, and write a space after each colon",
    ),
    "block sequence entries are not allowed in this context": (
        "a list cannot begin here",
        "begin it on a line of its own, or write [a, b]",
    ),
    "mapping keys are not allowed in this context": ("a '?' key cannot begin here", TEXT),
    "did not find expected key": (
        "no key where one is due",
        "align the keys; a value in quotes ends where they do",
    ),
    "did not find expected '-' indicator": ("no '- ' where one is due", "align the dashes"),
    "did not find expected ',' or ']'": ("no ',' or ']' where one is due", None),
    "did not find expected ',' or '}'": ("no ',' or '}' where one is due", None),
    "did not find expected node content": ("no value where one is due", TEXT),
    "did not find expected <document start>": (
        "more text after the end of the document",
        "align it with what is above, or take it out",
    ),
    "did not find expected comment or line break": (
        "more text where the line should end",
        "begin it on the next line",
    ),
    "did not find expected alphabetic or numeric character": (
        "no name of letters and digits after '*' or '&'",
        TEXT,
    ),
    "found unexpected end of stream": (OPEN_QUOTES, "close them"),
    "found unexpected document indicator": (OPEN_QUOTES, "close them"),
    "found unknown escape character": (
        "an unknown escape in double quotes",
        "write \\\\ for a backslash, or use single quotes",
    ),
    "did not find expected hexdecimal number": ("an escape without its hexadecimal digits", None),
    "found invalid Unicode character escape code": ("an escape for what is no character", None),
    "found undefined tag handle": ("tags are not read here", "take it out"),
    "found incompatible YAML document": ("a version of YAML that is not 1.1 or 1.2", None),
    "could not find expected directive name": ("a line that begins with '%'", "take it out"),
    "found unknown directive name": ("a line that begins with '%'", "take it out"),
    "found an indentation indicator equal to 0": ("an indentation of 0", "leave the 0 out"),
}
BEGAN = {  # these are told where they began, not where the reading stopped
    "could not find expected ':'",
    "found unexpected end of stream",
    "found unexpected document indicator",
}
COLLECTIONS = {
    "while parsing a flow sequence": "list",
    "while parsing a flow mapping": "mapping",
    "while parsing a block collection": "list",
    "while parsing a block mapping": "mapping",
}


class SyntaxProblem(NamedTuple):
    """One thing that is wrong with the text itself, and what to do about it."""

    mark: Mark
    what: str
    hint: str | None = None


def syntax_flaw(exc: yaml.MarkedYAMLError, text: str) -> SyntaxProblem:
    problem = exc.problem or "this is not YAML"
    began, stopped = exc.context_mark, exc.problem_mark
    at: Any = (began if problem in BEGAN else stopped) or stopped or began
    if at is None:
        return SyntaxProblem(Mark(1, 1), problem)
    if tab := _tab_before(text, at):
        return SyntaxProblem(tab, "a tab, where only spaces can be", "take spaces")
    what, hint = _plain_words(problem, text[at.index - at.column : at.index], text[at.index :][:1])
    line, column = inside(at, text)
    mark = Mark(line + 1, column + 1)
    if began and began.line + 1 < mark.line and (noun := COLLECTIONS.get(exc.context or "")):
        what += f"; the {noun} began on line {began.line + 1}"
    return SyntaxProblem(mark, what, hint)


def inside(at: Any, text: str) -> tuple[int, int]:
    """Give line and column of a mark; at the end, libyaml counts one more line than there is."""
    if at.column or at.index < len(text) or text[-1:] in "\r\n":
        return at.line, at.column
    return at.line - 1, len(text) - max(text.rfind("\n"), text.rfind("\r")) - 1


def _plain_words(problem: str, before: str, found: str) -> tuple[str, str | None]:
    """Say *problem*, which was met at the character *found* after *before* in one line."""
    if problem == "found character that cannot start any token":
        return f"no value can begin with '{found}'", "put it in quotes"
    if problem.startswith("mapping values") and ": " in before:
        return "a second ': ' in one value", "put the value in quotes"
    what, hint = WORDS.get(problem, (problem, None))
    return what, COLON if found == ":" and problem.endswith("start>") else hint


def _tab_before(text: str, at: Any) -> Mark | None:
    """Give the place of a tab where the reading stopped, or before that in the indentation."""
    start = at.index - at.column
    line = text[start : at.index + 1]
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    column = blank.find("\t") if "\t" in blank else len(line) - 1
    return Mark(at.line + 1, column + 1) if line[column:].startswith("\t") else None
