"""Runs on this machine that no record mentions, or only a damaged one.

They are found by their folders and their processes, and ended by their ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from runspec_jobs.provider import Client, NoAnswer, Orphan, Request
from runspec_local import status, timing
from runspec_local.discover import root as root_of
from runspec_local.options import LocalOptions
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
    except FileNotFoundError:  # another process has deleted the folder since it was listed
        return False


def end(
    run: str, texts: Collection[str], connect: Callable[[str], Client], *, delete: bool
) -> bool:
    """End *run*, and with *delete* remove its folder too; return whether anything of it was there.

    Its folder is one of *texts*, that of a live supervisor, or the default one. *connect* returns the
    client of a root folder.
    """
    ending = f"/runs/{run}"
    named = {Path(text) for text in texts if text.startswith("/") and text.endswith(ending)}
    ours = {path for path in named if (path / "inside.sh").exists()}  # other texts may end so, too
    alive = {path for path in process.supervised() if str(path).endswith(ending)}
    folders = {*ours, *alive, Path(root_of(LocalOptions()), "runs", run)}
    there = [folder for folder in sorted(folders) if folder.exists()]
    known = bool(there) or any(process.belonging(run))
    for folder in there or sorted(folders):
        client = connect(str(folder.parents[1]))
        _end(client, run)
        if delete:
            client.call(Request("local", "remove_run", {"run": run, "folder": str(folder)}))
    return known


def _end(client: Client, run: str) -> None:
    until = time.monotonic() + timing.DEFAULT.ended_s
    client.cancel(run)
    while not client.state(run).state.terminal:
        if time.monotonic() > until:
            raise NoAnswer(f"{run} has not ended yet", "run the same command again")
        time.sleep(timing.DEFAULT.poll_s)
        client.cancel(run)
