"""Finds the commit of the checkout that a file is in, from the files of git, because no command of a checkout is run.

https://git-scm.com/docs/gitrepository-layout
"""

from __future__ import annotations

import re
from pathlib import Path

HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")  # SHA-1 or SHA-256
LINKS = 5  # the most symbolic refs that lead to a commit
MOST_BYTES = 64 << 20  # of packed-refs


def commit(folder: Path) -> str | None:
    """Return the hash of the commit that is checked out in the repository around *folder*.

    None if there is no repository or no commit, or its files cannot be read, such as with the reftable format.
    """
    try:
        for place in (folder, *folder.parents):
            if (own := _find_git_folder(place / ".git")) is not None:
                return _read_head(own)
    except (OSError, ValueError):
        pass
    return None


def _find_git_folder(dot_git: Path) -> Path | None:
    """Return the folder that `.git` is or, in a worktree or a submodule, names; None if there is none."""
    if dot_git.is_dir():
        return dot_git
    if not dot_git.is_file():
        return None
    head, _, named = dot_git.read_text().strip().partition(": ")
    return dot_git.parent / named if head == "gitdir" else None


def _read_head(own: Path) -> str | None:
    """Return the commit that HEAD leads to. A worktree has HEAD of its own, and shares the other refs."""
    shared = own
    if (own / "commondir").is_file():
        shared = own / (own / "commondir").read_text().strip()
    text = (own / "HEAD").read_text().strip()
    for _ in range(LINKS):
        if HASH.fullmatch(text):
            return text
        mark, _, ref = text.partition(": ")
        if mark != "ref" or ".." in ref or not ref.startswith("refs/"):
            return None
        found = _read_ref(own, shared, ref)
        if found is None:
            return None
        text = found
    return None


def _read_ref(own: Path, shared: Path, ref: str) -> str | None:
    for place in (own / ref, shared / ref):
        if place.is_file():
            return place.read_text().strip()
    packed = shared / "packed-refs"
    if not packed.is_file() or packed.stat().st_size > MOST_BYTES:
        return None
    for line in packed.read_text(errors="replace").splitlines():
        name, _, called = line.partition(" ")
        if called == ref and HASH.fullmatch(name):
            return name
    return None
