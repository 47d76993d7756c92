"""`runspec validate`, which pre-commit calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.cli import diagnostics, output
from runspec_jobs.diagnostics.render import Diagnostic, Format
from runspec_jobs.document import reader
from runspec_jobs.errors import OK, RunspecError, UsageError
from runspec_jobs.load import source


def validate(files: Sequence[Path], form: Format, *, quiet: bool) -> int:
    failed = 0
    for file in files:
        text = _checked(file)
        failed += text.failed
        if not (quiet and not text.failed):
            diagnostics.print_one(text, form)
    count = len(files)
    if form is not Format.TEXT:
        return UsageError.exit_code if failed else OK
    if failed:
        invalid = f"{failed} of {count} specs are invalid"
        output.tell(invalid if count > 1 else "the spec is invalid")
        return UsageError.exit_code
    if not quiet:
        valid = f"{count} specs are valid" if count > 1 else "the spec is valid"
        output.tell(f"{valid} (profile not checked; runspec plan checks it)")
    return OK


def _checked(file: Path) -> source.SourceFile:
    """Return one file with its diagnostics; an error is a diagnostic too, so that other files are still checked."""
    try:
        if str(file) == "-":
            text = source.read("<stdin>", sys.stdin.buffer.read(reader.TEXT_BYTES + 1))
        else:
            text = source.read_file(file)
        _, problems = source.validated(text)
        if text.document is not None:
            text.complain(problems)
    except RunspecError as exc:
        text = source.SourceFile(str(file), b"")
        text.diagnostics = [Diagnostic(str(file), 0, 0, 1, "", exc.message, exc.hint)]
    return text
