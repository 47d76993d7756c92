"""The paths of runspec's files on this machine, and what is stored on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.errors import CredentialsError, UsageError
from runspec_jobs.state_folder import expand_home as expand_home, find_home as find_home

PROFILE = "runspec-profile.yaml"


class ProfilePlace(NamedTuple):
    """The path of a profile. If *own* is false, it was found in the folder of a job file, or above it."""

    path: Path
    own: bool


class StrangerProfile(NamedTuple):
    """A profile above a job file that belongs to another user, *owner*."""

    path: Path
    owner: int


def read_stored(source: str, what: str) -> str:
    """Return *what* is stored at *source*, `env:NAME` or `file:/path`, without white space around it.

    Raises CredentialsError.
    """
    kind, _, name = source.partition(":")
    if kind not in ("env", "file"):
        raise CredentialsError(f"cannot read a key from '{kind}:'", "use env:NAME or file:/path")
    try:
        path = Path(name).expanduser()
        value = os.environ[name] if kind == "env" else path.read_text(encoding="utf-8")
    except (KeyError, OSError, UnicodeDecodeError) as exc:
        hint = f"export {name}" if kind == "env" else f"write {what} into {name}"
        raise CredentialsError(f"cannot find the key {source}", hint) from exc
    return value.strip()


def find_profile(folder: Path) -> ProfilePlace | None:
    """Return the place of the profile for a spec in *folder*, or None.

    It is RUNSPEC_PROFILE, or else `runspec-profile.yaml` in the project (from *folder* up to the top
    of its git checkout), or else `profile.yaml` in the user's config folder.
    """
    if named := os.environ.get("RUNSPEC_PROFILE"):
        return ProfilePlace(expand_home(named), own=True)
    for above in _list_project_folders(folder):
        if (above / PROFILE).is_file() and _find_stranger(above, folder) is None:
            return ProfilePlace(above / PROFILE, own=False)
    try:
        config = expand_home(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    except UsageError:  # this user has no home directory
        return None
    user_profile = config / "runspec" / "profile.yaml"
    return ProfilePlace(user_profile, own=True) if user_profile.is_file() else None


def find_profiles_of_strangers(folder: Path) -> Iterator[StrangerProfile]:
    """Yield the profiles for a spec in *folder* that other users put there, which therefore do not count."""
    for above in _list_project_folders(folder):
        if (above / PROFILE).is_file() and (owner := _find_stranger(above, folder)) is not None:
            yield StrangerProfile(above / PROFILE, owner)


def _find_stranger(above: Path, folder: Path) -> int | None:
    """Return the owner of the profile in *above* if it is not root, this user, or the owner of *folder*.

    Anybody may put a file into /tmp. Whoever owns the folder of the spec may write all that a profile says into the
    spec; that user is another one than this in a container that runs as root.
    """
    # The folder itself may not exist yet, as for `runspec init`.
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    known = {0, os.geteuid(), there.stat().st_uid}
    path = above / PROFILE
    return next(
        # Of a link, both the link and its target count: either could have been put there.
        (uid for uid in (path.lstat().st_uid, path.stat().st_uid) if uid not in known),
        None,
    )


def find_checkout(folder: Path) -> Path:
    """Return the top of the git checkout that contains *folder*, or *folder*, with links resolved."""
    above = list(_list_project_folders(folder.resolve()))
    return above[-1] if (above[-1] / ".git").exists() else above[0]


def _list_project_folders(folder: Path) -> Iterator[Path]:
    folder = folder.absolute()
    for above in (folder, *folder.parents):
        yield above
        if (above / ".git").exists():
            return
