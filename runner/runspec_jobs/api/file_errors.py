"""Errors of files of this machine that no other module has put into words."""

from __future__ import annotations

import os
from pathlib import Path

from runspec_jobs.errors import FileFailed
from runspec_jobs.state import atomic_io


def described(exc: OSError) -> FileFailed:
    """Return the error of the user for *exc*, which names a file."""
    return atomic_io.failed(exc, Path(os.fsdecode(exc.filename)), "use")
