"""Runs on this machine that no record mentions: their folders, and those that are alive without one."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path

from runspec_jobs.provider import Orphan, Request
from runspec_local import status
from runspec_local.supervisor import process

YOUNG_S = 60.0  # an apply may be about to start the supervisor of such a folder
COMING = (
    "has no supervisor yet, but changed within the last minute: an apply may be about to start it"
)


def find(root: Path, known: Collection[str]) -> Iterator[Orphan]:
    """Yield the runs below *root* that are not *known*."""
    folders = {path.name: path for path in (root / "runs").glob("*-??????") if path.is_dir()}
    folders |= {path.name: path for path in process.supervised() if path.parents[1] == root}
    for run, folder in sorted(folders.items()):
        if run not in known:
            who = status.supervisor(folder)
            alive = who is not None and process.alive(who)
            coming = not alive and who is None and _is_young(folder)
            how = ", which is alive" if alive else f" {COMING}" if coming else ""
            remove = Request("local", "remove_run", {"run": run, "folder": str(folder)})
            yield Orphan(f"run {run}{how}", (remove,), run, alive or coming)


def _is_young(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime < YOUNG_S
    except FileNotFoundError:
        return False
