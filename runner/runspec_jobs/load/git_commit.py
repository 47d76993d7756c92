"""Finds the commit of the checkout that a file is in, from the files of git, because no command of a checkout is run.

https://git-scm.com/docs/gitrepository-layout
"""

from __future__ import annotations

from pathlib import Path

from runspec_jobs.regex import regex

HASH = regex(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")  # SHA-1 or SHA-256
LINKS = 5  # the most symbolic refs that lead to a commit
MOST_BYTES = 64 << 20  # of packed-refs


def commit(folder: Path) -> str | None:
    """Return the hash of the commit that is checked out in the repository around *folder*.

    None if there is no repository or no commit, or its files cannot be read, such as with the reftable format.
    """
    try:
        for above in (folder, *folder.parents):
            if (git_folder := _find_git_folder(above / ".git")) is not None:
                return _read_head(git_folder)
    except (OSError, ValueError):  # a damaged repository: the commit is only a note in the record
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


def _read_head(git_folder: Path) -> str | None:
    """Return the commit that HEAD leads to. A worktree has HEAD of its own, and shares the other refs."""
    shared = git_folder
    if (git_folder / "commondir").is_file():
        shared = git_folder / (git_folder / "commondir").read_text().strip()
    text = (git_folder / "HEAD").read_text().strip()
    for _ in range(LINKS):
        if HASH.fullmatch(text):
            return text
        mark, _, ref = text.partition(": ")
        # The files may come from somebody else's checkout, and a ref must not lead out of it.
        if mark != "ref" or ".." in ref or not ref.startswith("refs/"):
            return None
        commit = _read_ref(git_folder, shared, ref)
        if commit is None:
            return None
        text = commit
    return None


def _read_ref(git_folder: Path, shared: Path, ref: str) -> str | None:
    # A ref in a file of its own is newer than its line in packed-refs.
    for file in (git_folder / ref, shared / ref):
        if file.is_file():
            return file.read_text().strip()
    packed = shared / "packed-refs"
    if not packed.is_file() or packed.stat().st_size > MOST_BYTES:
        return None
    for line in packed.read_text(errors="replace").splitlines():
        name, _, called = line.partition(" ")
        if called == ref and HASH.fullmatch(name):
            return name
    return None
