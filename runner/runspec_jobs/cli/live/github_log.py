"""Groups of lines in the log of GitHub Actions, where each can be opened and closed.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator

from runspec_jobs.cli import output


@contextlib.contextmanager
def progress(title: str) -> Iterator[None]:
    """Put the progress that is printed within into a group, in GitHub Actions."""
    if not output.in_github_actions():
        yield
        return
    output.command(f"::group::{title}")
    try:
        yield
    finally:
        output.command("::endgroup::")


@contextlib.contextmanager
def log(title: str) -> Iterator[None]:
    """Put the log that is printed within into a group, in GitHub Actions; no line of it is taken for a command."""
    if not output.in_github_actions():
        yield
        return
    token = secrets.token_hex(16)
    output.write(f"::group::{title}\n::stop-commands::{token}\n")
    try:
        yield
    finally:
        output.write(f"::{token}::\n::endgroup::\n")
