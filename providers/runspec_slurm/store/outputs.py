"""The saved outputs of jobs, which `runspec_agent` wrote to the workspace."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import BinaryIO

from runspec_jobs.provider import OUTPUT_TAR, Conflict, OutputFile, RangedReader, read_saved_outputs
from runspec_slurm.store.batch_fetch import BatchFetch
from runspec_slurm.store.workspace import Entry, WorkspaceStore

BLOCK_BYTES = 8 << 20
LIKE = ("*/.runspec/manifest.json", f"*/{OUTPUT_TAR}")


def outputs(store: WorkspaceStore, run: str) -> Sequence[OutputFile]:
    """Return all files of *run* that were saved so far. Small files are fetched together, in the order returned."""
    base = f"runs/{run}/outputs/"
    entries = store.listing(base.rstrip("/"), *LIKE)
    ahead = BatchFetch(store, entries)

    def opened(key: str, start: int, end: int | None) -> BinaryIO:
        whole = ahead.take(key) if start == 0 and end is None else None
        if whole is not None:
            return io.BytesIO(whole)
        return io.BufferedReader(
            RangedReader(partial(_read, store, key), start, end, BLOCK_BYTES), BLOCK_BYTES
        )

    found = read_saved_outputs(base, entries, opened)
    files = (f for f in found if f.kind == "file" and not f.key.endswith(f"/{OUTPUT_TAR}"))
    listed = (Entry(f.key, f.bytes) for f in files)
    ahead = BatchFetch(store, list(listed))
    return found


def _read(store: WorkspaceStore, key: str, start: int, end: int) -> bytes:
    data = store.part(key, start, end - start)
    if data is None:
        raise Conflict(f"{key} was deleted meanwhile", "repeat the command")
    return data
