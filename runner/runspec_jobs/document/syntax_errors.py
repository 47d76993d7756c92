"""Translates libyaml's errors, which are written for its authors, into messages for users."""

from __future__ import annotations

from typing import Any

import yaml

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.document.nodes import Mark

OPEN_QUOTES = "the quotes are never closed"
COLON = "write key: value, with a space after the colon"
TEXT = "put it in quotes if it is text"
# libyaml's message, runspec's message, and the hint.
WORDS: dict[str, tuple[str, str | None]] = {
    "could not find expected ':'": ("a key needs ': ' after it", COLON),
    "mapping values are not allowed in this context": (
        "a key cannot begin here, inside the value of another key",
        "align the keys, and write a space after each colon",
    ),
    "block sequence entries are not allowed in this context": (
        "a list cannot begin here",
        "begin it on a line of its own, or write [a, b]",
    ),
    "mapping keys are not allowed in this context": ("a '?' key cannot begin here", TEXT),
    "did not find expected key": (
        "a key is expected here",
        "align the keys; after the closing quote a value cannot go on",
    ),
    "did not find expected '-' indicator": (
        "this line should be a list item, or be indented less",
        "align the dashes",
    ),
    "did not find expected ',' or ']'": ("a ',' or ']' is expected here", None),
    "did not find expected ',' or '}'": ("a ',' or '}' is expected here", None),
    "did not find expected node content": ("a value is expected here", TEXT),
    "did not find expected <document start>": (
        "there is more text after the end of the document",
        "align it with the lines above, or remove it",
    ),
    "did not find expected comment or line break": (
        "there is more text where the line should end",
        "write | in place of the value and the text on the next lines, or put all of it in quotes",
    ),
    "did not find expected alphabetic or numeric character": (
        "a name of letters and digits is expected after '*' or '&'",
        TEXT,
    ),
    "found unexpected end of stream": (OPEN_QUOTES, "close them"),
    "found unexpected document indicator": (OPEN_QUOTES, "close them"),
    "found unknown escape character": (
        "an unknown escape in double quotes",
        "write \\\\ for a backslash, or use single quotes",
    ),
    "did not find expected hexdecimal number": ("an escape without its hexadecimal digits", None),
    "found invalid Unicode character escape code": (
        "an escape for a character that does not exist",
        None,
    ),
    "found undefined tag handle": ("tags are not supported", "remove it"),
    "found incompatible YAML document": ("this version of YAML is not 1.1 or 1.2", None),
    "could not find expected directive name": ("a line cannot begin with '%'", "remove it"),
    "found unknown directive name": ("a line cannot begin with '%'", "remove it"),
    "found an indentation indicator equal to 0": ("an indentation of 0", "leave the 0 out"),
}
BEGAN = {  # reported at the start of the construct, not where reading stopped
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
    """One problem of the YAML syntax, with its position and a hint."""

    mark: Mark
    what: str
    hint: str | None = None


def make_syntax_flaw(exc: yaml.MarkedYAMLError, text: str) -> SyntaxProblem:
    problem = exc.problem or "this is not YAML"
    began, stopped = exc.context_mark, exc.problem_mark
    at: Any = (began if problem in BEGAN else stopped) or stopped or began
    if at is None:
        return SyntaxProblem(Mark(1, 1), problem)
    # libyaml reports a tab in an indentation in several ways, none of which names it.
    if tab := _find_tab(text, at):
        return SyntaxProblem(tab, "tab found", "indent with spaces")
    message, hint = _explain_problem(
        problem, text[at.index - at.column : at.index], text[at.index :][:1]
    )
    line, column = clamp_position(at, text)
    mark = Mark(line + 1, column + 1)
    if began and began.line + 1 < mark.line and (noun := COLLECTIONS.get(exc.context or "")):
        message += f"; the {noun} began on line {began.line + 1}"
    return SyntaxProblem(mark, message, hint)


def clamp_position(at: Any, text: str) -> tuple[int, int]:
    """Return the line and column of the mark *at*; at the end of the text, libyaml counts one line too many."""
    if at.column or at.index < len(text) or text[-1:] in "\r\n":
        return at.line, at.column
    return at.line - 1, len(text) - max(text.rfind("\n"), text.rfind("\r")) - 1


def _explain_problem(problem: str, before: str, character: str) -> tuple[str, str | None]:
    """Return the message and hint for *problem* at *character*, with *before* to its left in the line."""
    if problem == "found character that cannot start any token":
        return f"no value can begin with '{character}'", "put it in quotes"
    if problem.startswith("mapping values") and ": " in before:
        return "a second ': ' in one value", "put the value in quotes"
    message, hint = WORDS.get(problem, (problem, None))
    return message, COLON if character == ":" and problem.endswith("start>") else hint


def _find_tab(text: str, at: Any) -> Mark | None:
    """Return the position of a tab where reading stopped or in the indentation of that line, or None."""
    start = at.index - at.column
    line = text[start : at.index + 1]
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    column = blank.find("\t") if "\t" in blank else len(line) - 1
    return Mark(at.line + 1, column + 1) if line[column:].startswith("\t") else None
