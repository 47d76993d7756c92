"""The folder of runspec's state on this machine. It imports little, because the completion of words needs it too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from runspec_jobs.errors import UsageError


def find_home() -> Path:
    """Return the folder of all state: RUNSPEC_HOME, or the one of the XDG base directory specification.

    Raises UsageError if something else than a folder is there.
    https://specifications.freedesktop.org/basedir-spec/latest/
    """
    if named := os.environ.get("RUNSPEC_HOME"):
        path = expand_home(named).absolute()
    else:
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        path = expand_home(state).absolute() / "runspec"
    if not _can_be_folder(path):
        message = f"{path} is no folder, so it has no records of runs"
        raise UsageError(message, "set RUNSPEC_HOME to a folder, or unset it")
    return path


def _can_be_folder(path: Path) -> bool:
    """Return whether *path* is a folder or can be made, as far as that is known."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        return not path.is_symlink()
    except OSError:  # whoever uses the folder says what is wrong
        return True


def find_chains_folder() -> Path:
    return find_home() / "chains"


def find_runs_folder() -> Path:
    """Return the folder that has a folder for each run on record."""
    return find_home() / "runs"


def expand_home(path: str) -> Path:
    """Return *path* with "~" expanded. Raises UsageError if there is no such home directory.

    A user without an entry in the passwd database, as in many containers, has the home directory in HOME alone.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as exc:
        if path == "~" or path.startswith("~/"):
            message = (
                f"'{path}' cannot be expanded: HOME is not set, and this user has no home directory"
            )
            raise UsageError(message, "set HOME to a folder that you may write") from exc
        raise UsageError(
            f"'{path}' cannot be expanded: there is no such user", "write the path in full"
        ) from exc


def find_ttl_folder() -> Path:
    """Return the folder with a file for each run of this machine that is destroyed some time after its end."""
    return find_runs_folder().parent / "ttl"
