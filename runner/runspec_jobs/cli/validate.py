"""`runspec validate`, which pre-commit calls."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from runspec_jobs.cli import diagnostics, output
from runspec_jobs.diagnostics.render import Diagnostic, Format
from runspec_jobs.document import reader
from runspec_jobs.errors import OK, RunspecError, UsageError
from runspec_jobs.load import source


def validate(args: Namespace) -> int:
    form = diagnostics.wanted(args)
    failed = 0
    for name in args.files:
        text = _checked(name)
        failed += text.failed
        if not (args.quiet and not text.failed):
            diagnostics.print_one(text, form)
    count = len(args.files)
    if form is not Format.TEXT:
        return UsageError.exit_code if failed else OK
    if failed:
        invalid = f"{failed} of {count} specs are invalid"
        output.tell(invalid if count > 1 else "the spec is invalid")
        return UsageError.exit_code
    if not args.quiet:
        valid = f"{count} specs are valid" if count > 1 else "the spec is valid"
        output.tell(f"{valid} (profile not checked; runspec plan checks it)")
    return OK


def _checked(name: str) -> source.SourceFile:
    """Return one file with its diagnostics; an error is a diagnostic too, so that other files are still checked."""
    try:
        if name == "-":
            text = source.read("<stdin>", sys.stdin.buffer.read(reader.TEXT_BYTES + 1))
        else:
            text = source.read_file(Path(name))
        _, problems = source.validated(text)
        if text.document is not None:
            text.complain(problems)
    except RunspecError as exc:
        text = source.SourceFile(name, b"")
        text.diagnostics = [Diagnostic(name, 0, 0, 1, "", exc.message, exc.hint)]
    return text
