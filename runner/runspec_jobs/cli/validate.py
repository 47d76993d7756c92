"""`runspec validate`, which pre-commit calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.api.specs import TEXT_BYTES, Diagnostic, SourceFile, check, check_file
from runspec_jobs.cli import diagnostics, output
from runspec_jobs.diagnostics.render import Format
from runspec_jobs.errors import OK, RunspecError, Unavailable, UsageError
from runspec_jobs.options.shared import JOB_YAML
from runspec_jobs.options.spec_verbs import ValidateOptions


def validate(options: ValidateOptions) -> int:
    form = diagnostics.wanted(options.output_format, as_json=options.as_json)
    quiet = options.quiet
    failed, count, code = 0, 0, Unavailable.exit_code
    for text in (
        text for file in options.files or [JOB_YAML] for text in _checked(file, options.params)
    ):
        count += 1
        failed += text.failed
        code = code if text.lacks_provider else UsageError.exit_code
        if not (quiet and not text.failed):
            diagnostics.print_one(text, form)
    if form is not Format.TEXT:
        return code if failed else OK
    if failed:
        invalid = f"{failed} of {count} specs are invalid"
        output.tell(invalid if count > 1 else "the spec is invalid")
        return code
    if not quiet:
        valid = f"{count} specs are valid" if count > 1 else "the spec is valid"
        output.tell(f"{valid} (profile not checked; runspec plan checks it)")
    return OK


def _checked(file: Path, params: Sequence[str]) -> list[SourceFile]:
    """Return the jobs of a file with their diagnostics; an error is one, too, so that other files are checked."""
    try:
        if str(file) == "-":
            return [check(sys.stdin.buffer.read(TEXT_BYTES + 1), "<stdin>", params)]
        return check_file(file, params)
    except RunspecError as exc:
        text = SourceFile(str(file), b"")
        text.diagnostics = [Diagnostic(str(file), 0, 0, 1, "", exc.message, exc.hint)]
        return [text]
