"""Where runspec keeps things on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from runspec.errors import UsageError

PROFILE = "runspec-profile.yaml"


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


def profile_path(folder: Path) -> Path | None:
    """Give the profile for a spec in *folder*, or None.

    RUNSPEC_PROFILE, then `runspec-profile.yaml` in the project (from *folder* up to the top of
    its git checkout), then `profile.yaml` in the user's config folder.
    """
    if named := os.environ.get("RUNSPEC_PROFILE"):
        return expanded(named)
    config = expanded(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    candidates = [*(f / PROFILE for f in _project(folder)), config / "runspec" / "profile.yaml"]
    return next((path for path in candidates if path.is_file()), None)


def _project(folder: Path) -> Iterator[Path]:
    folder = folder.absolute()
    for above in (folder, *folder.parents):
        yield above
        if (above / ".git").exists():
            return
