"""`runspec validate`: what pre-commit calls."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from runspec import job, yamlio
from runspec.cli import complaining, console
from runspec.errors import OK, RunspecError, UsageError
from runspec.report import Complaint, Format


def validate(args: Namespace) -> int:
    form = complaining.wanted(args)
    failed = 0
    for name in args.files:
        text = _checked(name)
        failed += text.failed
        if not (args.quiet and not text.failed):
            complaining.print_one(text, form)
    count = len(args.files)
    if form is not Format.TEXT:
        return UsageError.exit_code if failed else OK
    if failed:
        console.tell(f"{failed} of {count} specs are wrong" if count > 1 else "the spec is wrong")
        return UsageError.exit_code
    if not args.quiet:
        right = f"{count} specs are right" if count > 1 else "the spec is right"
        console.tell(f"{right}; the profile was not looked at (runspec plan does)")
    return OK


def _checked(name: str) -> job.Text:
    """Read and check one file; what stops that is a complaint about it, so that the rest go on."""
    try:
        if name == "-":
            text = job.read("<stdin>", sys.stdin.buffer.read(yamlio.TEXT_BYTES + 1))
        else:
            text = job.read_file(Path(name))
        _, problems = job.validated(text)
        if text.document is not None:
            text.complain(problems)
    except RunspecError as exc:
        text = job.Text(name, b"")
        text.complaints = [Complaint(name, 0, 0, 1, "", exc.message, exc.hint)]
    return text
