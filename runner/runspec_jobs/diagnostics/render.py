"""Formats problems as text with carets, as JSON lines, or as annotations of a pull request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import Problem, format_path
from runspec_jobs.document import reader
from runspec_jobs.document.reader import Document, SyntaxProblem
from runspec_jobs.document.syntax_errors import OPEN_QUOTES
from runspec_jobs.regex import regex

PRIVATE_NAME = regex(r"(?i)(key|password|secret|token)s?['\"]?\s*:")
KEY_END = regex(r"['\"]?\s*:")
WIDTH = 160  # characters of a source line shown around the caret


class Format(StrEnum):
    """How problems are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class Diagnostic(NamedTuple):
    """A problem with its position in a file; *line* and *column* count from 1, and 0 means that there is none.

    *file* is its name, *path* the field as text, *what* says what is wrong and *hint* what to write, *severity* is
    `error`, `warning` or `note`, and *length* is how many characters the carets are under.
    The line must not be shown from column *veil* on, unless *veil* is 0.
    """

    file: str
    line: int
    column: int
    length: int
    path: str
    what: str
    hint: str | None
    severity: str = "error"
    veil: int = 0


def locate_problems(file: str, document: Document, problems: Iterable[Problem]) -> list[Diagnostic]:
    """Return *problems* of *document* with their positions in *file*, in the order of its lines."""
    return sorted(
        (_locate_problem(file, document, p) for p in problems), key=lambda c: (c.line, c.column)
    )


def _locate_problem(file: str, document: Document, problem: Problem) -> Diagnostic:
    path, mark = document.find_nearest(problem.path)
    length = 1
    if path:
        if problem.at == "key" and path == problem.path and isinstance(path[-1], str):
            mark = document.find_key_mark(path) or mark
            length = len(path[-1])
        else:
            mark = document.find_value_mark(path) or mark
            # A value on several lines is marked at its first character alone.
            end = document.find_value_end(path)
            length = end.column - mark.column if end and end.line == mark.line else 1
    where = format_path(problem.path)
    return Diagnostic(
        file,
        mark.line,
        mark.column,
        max(1, length),
        where,
        problem.what,
        problem.hint,
        problem.severity,
        (mark.column + (length if problem.at == "key" else 0)) if problem.private else 0,
    )


def locate_in_option(option: str, problem: Problem) -> Diagnostic:
    """Return *problem*, which an *option* of the command line caused, in the form of other problems."""
    where = format_path(problem.path)
    path = "" if option.endswith(where) else where
    return Diagnostic(option, 0, 0, 1, path, problem.what, problem.hint, problem.severity)


def locate_flaws(file: str, flaws: Iterable[SyntaxProblem]) -> list[Diagnostic]:
    """Return the syntax errors of *file*, which could not be read, in the form of other problems."""
    return [_locate_flaw(file, flaw) for flaw in flaws]


def _locate_flaw(file: str, flaw: SyntaxProblem) -> Diagnostic:
    """Return one syntax error of *file*; text after quotes that are never closed is hidden, as it may be a secret."""
    line, column = flaw.mark.line, flaw.mark.column
    veil = column + 1 if flaw.what.startswith(OPEN_QUOTES) else 0
    return Diagnostic(file, line, column, 1, "", flaw.what, flaw.hint, veil=veil)


def render(diagnostics: Sequence[Diagnostic], form: Format, text: str = "") -> str:
    """Return *diagnostics* in *form*; *text* is the content of their file, whose lines are shown."""
    match form:
        case Format.JSON:
            return "\n".join(_convert_diagnostic(c) for c in diagnostics)
        case Format.GITHUB:
            return "\n".join(_format_github(c) for c in diagnostics)
        case Format.TEXT:
            lines = _hide_values(reader.split_lines(text), diagnostics)
            return "\n".join(_format_text(c, lines) for c in diagnostics)


def _hide_values(lines: list[str], diagnostics: Iterable[Diagnostic]) -> list[str]:
    """Return *lines* with private values replaced by `***`."""
    for c in diagnostics:
        if 0 < c.line <= len(lines):
            line = lines[c.line - 1]
            named = (
                None if c.path else PRIVATE_NAME.search(line)
            )  # the file is not YAML, so no value has a path
            # Whichever begins first: the private value of this problem, or what looks like one in the same line.
            veil = min(c.veil or len(line) + 1, named.end() + 1 if named else len(line) + 1)
            lines[c.line - 1] = line if veil > len(line) else _hide_value(line, veil - 1)
    return lines


def _hide_value(line: str, at: int) -> str:
    """Return *line* with `***` for what begins at the position *at*, but with the colon of a key that ends there.

    >>> _hide_value("  batch_key: xyz", 11), _hide_value("  batch_key: xyz", 13)
    ('  batch_key: ***', '  batch_key: ***')
    """
    colon = KEY_END.match(line, at)
    kept = line[: colon.end() if colon else at]
    return f"{kept} ***" if kept.endswith(":") else f"{kept}***"


def _convert_diagnostic(c: Diagnostic) -> str:
    shown = {name: value for name, value in c._asdict().items() if name != "veil"}
    return format_json({"format": "runspec.diagnostic/v1", **shown})


def format_json(value: Any, indent: int | None = None) -> str:
    """Return *value* as JSON in which control characters, and those that turn the direction of text, are escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _format_text(c: Diagnostic, lines: Sequence[str]) -> str:
    file = escape_control(c.file)
    position = f"{file}:{c.line}:{c.column}: " if c.line else f"{file}: "
    note = "note: " if c.severity == "note" else ""
    out = [
        f"{position}{note}{escape_control(c.path) + ': ' if c.path else ''}{escape_control(c.what)}"
    ]
    if 0 < c.line <= len(lines):
        out += _draw_caret(c, lines[c.line - 1])
    if c.hint:
        first, *rest = c.hint.split("\n")
        out += [
            f"  hint: {escape_control(first)}",
            *(f"    {escape_control(line)}".rstrip() for line in rest),
        ]
    return "\n".join(out)


def _draw_caret(c: Diagnostic, line: str) -> list[str]:
    # A line of a minified file may have a megabyte.
    start = max(0, c.column - 1 - WIDTH // 2)
    shown = line[start : start + WIDTH]
    before = count_columns(_replace_tabs(shown[: c.column - 1 - start]))
    end = count_columns(_replace_tabs(shown[: c.column - 1 - start + c.length]))
    return [
        f"{c.line:5} | {_replace_tabs(shown)}",
        f"      | {' ' * before}{'^' * max(1, end - before)}",
    ]


def _replace_tabs(text: str) -> str:
    return escape_control(text.replace("\t", " "))


def escape_control(text: str) -> str:
    """Return *text* with control characters escaped, so that none reaches a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def count_columns(text: str) -> int:
    """Return the number of terminal columns that *text* takes.

    >>> count_columns("日本"), count_columns("e\u0301"), count_columns("\u2764\ufe0f")
    (4, 1, 2)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # imported here because it is slow to import and seldom needed

    return cell_len(text)


def _format_github(c: Diagnostic) -> str:
    """Return a workflow command: https://docs.github.com/actions/reference/workflow-commands-for-github-actions"""
    message = f"{c.path + ': ' if c.path else ''}{c.what}{'; ' + c.hint if c.hint else ''}"
    kind = "notice" if c.severity == "note" else "error"
    if c.file.startswith("--"):  # an option of the command line, not a file
        return format_annotation(f"{c.file}: {message}", kind)
    file = _escape_data(c.file).replace(":", "%3A").replace(",", "%2C")
    position = f"file={file},line={max(c.line, 1)},col={max(c.column, 1)}"
    return format_annotation(message, f"{kind} {position}")


def format_annotation(message: str, kind: str = "error") -> str:
    """Return the workflow command that shows *message* on the page of a workflow run, at the place that *kind* names.

    >>> format_annotation("100% wrong")
    '::error::100%25 wrong'
    """
    return escape_control(f"::{kind}::{_escape_data(message)}")


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
