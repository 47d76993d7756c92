"""Prints the problems of specs and profiles."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import Format, render
from runspec_jobs.load.source import SourceFile


def print_all(texts: Iterable[SourceFile], args: Namespace | None) -> None:
    """Print every diagnostic of *texts*: as text to standard error, in another format to standard output."""
    form = wanted(args)
    for text in texts:
        print_one(text, form)


def wanted(args: Namespace | None) -> Format:
    if getattr(args, "json", False):
        return Format.JSON
    return Format(getattr(args, "output_format", "text"))


def print_one(text: SourceFile, form: Format) -> None:
    if not text.diagnostics:
        return
    shown = render(text.diagnostics, form, text.lines)
    if form is Format.TEXT:
        print(shown, file=sys.stderr, flush=True)
    else:
        output.out(shown)
