"""Commands of emulated jobs, which change nothing of this machine by accident. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

from runspec_namespaces import mount_namespace
from runspec_namespaces.mount_namespace import PRIVATE, Confinement


def words_before(root: Path | None, confinement: Confinement) -> list[str]:
    """Return the words before a command that let it begin in a root of its own: see `mount_namespace.begin`."""
    # A supervisor runs on while another version is installed: that file keeps its path.
    kept = "" if root is None else os.path.realpath(root)
    return [sys.executable, "-IS", mount_namespace.__file__, kept, json.dumps(confinement)]


def confined_to(writable: Sequence[Path], kept: Path, seen: Sequence[str] = ()) -> Confinement:
    """Return a confinement to *writable*; *kept* keeps temporary files. All these folders exist.

    *seen* are paths that a process has to see even where they lie among temporary files, as it does this Python.
    """
    real = {path: os.path.realpath(path) for path in map(str, writable)}
    needed = (sys.prefix, sys.base_prefix, os.path.dirname(__file__), *seen)
    shown = [path for path in needed if _is_private(path) and os.path.exists(path)]
    return Confinement(
        os.path.realpath(kept),
        {**{path: path for path in real.values()}, **real},
        {path: os.path.realpath(path) for path in shown},
        homes(),
    )


def homes() -> list[str]:
    """Return the home folders of this user: the one in HOME, and that of the passwd database."""
    homes_found = {os.path.realpath(os.path.expanduser("~"))}
    with contextlib.suppress(KeyError):  # containers run as users that passwd does not list
        homes_found.add(os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir))
    return sorted(
        path for path in homes_found if os.path.isdir(path) and path not in ("/", *PRIVATE)
    )


def _is_private(path: str) -> bool:
    return any(path.startswith(f"{private}/") for private in PRIVATE)
