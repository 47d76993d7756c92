"""Prints the problems of specs and profiles."""

from __future__ import annotations

from collections.abc import Iterable

from runspec_jobs.api.specs import SourceFile
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import Format, render


def print_all(texts: Iterable[SourceFile], form: Format) -> None:
    """Print every diagnostic of *texts*: as text to standard error, in another format to standard output."""
    for text in texts:
        print_one(text, form)


def wanted(output_format: str, *, as_json: bool) -> Format:
    """Return the format of `--output-format`; with `--json`, JSON."""
    return Format.JSON if as_json else Format(output_format)


def print_one(text: SourceFile, form: Format) -> None:
    if not text.diagnostics:
        return
    shown = render(text.diagnostics, form, text.lines)
    if form is not Format.TEXT:
        output.write(f"{shown}\n")
        return
    output.tell_lines(shown)
    if output.in_github_actions():
        output.command(render(text.diagnostics, Format.GITHUB))
