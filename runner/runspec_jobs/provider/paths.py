"""Where runspec keeps things on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runspec_jobs.errors import UsageError

PROFILE = "runspec-profile.yaml"


class ProfilePlace(NamedTuple):
    """Where a profile lies. One that is not the user's *own* was found beside a job file, or above it."""

    path: Path
    own: bool


def home() -> Path:
    """Give the folder of all state: RUNSPEC_HOME, else by the XDG base directory rules.

    https://specifications.freedesktop.org/basedir-spec/latest/
    """
    if named := os.environ.get("RUNSPEC_HOME"):
        return expanded(named).absolute()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return expanded(state).absolute() / "runspec"


def expanded(path: str) -> Path:
    """Give *path* with its "~" filled in. Raises UsageError when there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"'{path}' names nobody's home", "write the path in full") from exc


def find_profile(folder: Path) -> ProfilePlace | None:
    """Give the place of the profile for a spec in *folder*, or None.

    RUNSPEC_PROFILE, then `runspec-profile.yaml` in the project (from *folder* up to the top of
    its git checkout), then `profile.yaml` in the user's config folder.
    """
    if named := os.environ.get("RUNSPEC_PROFILE"):
        return ProfilePlace(expanded(named), own=True)
    for above in _project(folder):
        if (above / PROFILE).is_file():
            return ProfilePlace(above / PROFILE, own=False)
    config = expanded(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    own = config / "runspec" / "profile.yaml"
    return ProfilePlace(own, own=True) if own.is_file() else None


def checkout(folder: Path) -> Path:
    """Return the top of the git checkout that *folder* lies in, or *folder* itself, as it really lies."""
    above = list(_project(folder.resolve()))
    return above[-1] if (above[-1] / ".git").exists() else above[0]


def _project(folder: Path) -> Iterator[Path]:
    folder = folder.absolute()
    for above in (folder, *folder.parents):
        yield above
        if (above / ".git").exists():
            return
