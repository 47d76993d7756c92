"""Groups of lines in the log of GitHub Actions, where each can be opened and closed.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator

from runspec_jobs.cli import output


def wanted() -> bool:
    """Return whether this process runs in GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


@contextlib.contextmanager
def progress(title: str) -> Iterator[None]:
    """Put the progress that is printed within into a group, in GitHub Actions."""
    if not wanted():
        yield
        return
    output.tell_lines(f"::group::{title}")
    try:
        yield
    finally:
        output.tell_lines("::endgroup::")


@contextlib.contextmanager
def log(title: str) -> Iterator[None]:
    """Put the log that is printed within into a group, in GitHub Actions; no line of it is taken for a command."""
    if not wanted():
        yield
        return
    token = secrets.token_hex(16)
    output.out(f"::group::{title}\n::stop-commands::{token}")
    try:
        yield
    finally:
        output.out(f"::{token}::\n::endgroup::")
