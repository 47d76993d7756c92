"""Ends a run on this machine of which only the id is known, because its record is damaged."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from runspec_jobs.provider import NoAnswer, Request
from runspec_local.client import LocalClient
from runspec_local.discover import root
from runspec_local.options import LocalOptions
from runspec_local.supervisor import process


def end(run: str, texts: Collection[str], *, delete: bool) -> bool:
    """End *run*, and with *delete* remove its folder too; return whether anything of it was there.

    Its folder is one of *texts*, that of a live supervisor, or the default one.
    """
    ending = f"/runs/{run}"
    named = {Path(text) for text in texts if text.startswith("/") and text.endswith(ending)}
    own = {path for path in named if (path / "inside.sh").exists()}  # other texts may end so, too
    alive = {path for path in process.supervised() if str(path).endswith(ending)}
    folders = {*own, *alive, Path(root(LocalOptions()), "runs", run)}
    there = [folder for folder in sorted(folders) if folder.exists()]
    known = bool(there) or any(process.belonging(run))
    for folder in there or sorted(folders):
        _end(LocalClient(str(folder.parents[1])), run)
        if delete:
            params = {"run": run, "folder": str(folder)}
            LocalClient(str(folder.parents[1])).call(Request("local", "remove_run", params))
    return known


def _end(client: LocalClient, run: str) -> None:
    until = time.monotonic() + client.timing.ended_s
    client.cancel(run)
    while not client.state(run).state.terminal:
        if time.monotonic() > until:
            raise NoAnswer(f"{run} has not ended yet", "run the same command again")
        time.sleep(client.poll_s)
        client.cancel(run)
