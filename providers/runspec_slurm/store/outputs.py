"""What jobs wrote: files of the workspace, as `runspec_agent` has saved them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import BinaryIO

from runspec_jobs.provider import OUTPUT_TAR, Conflict, OutputFile, read_saved_outputs
from runspec_slurm.store.batch_fetch import BatchFetch
from runspec_slurm.store.workspace import Entry, WorkspaceStore

BLOCK_BYTES = 8 << 20
LIKE = ("*/.runspec/manifest.json", f"*/{OUTPUT_TAR}")


def outputs(shelf: WorkspaceStore, run: str) -> Sequence[OutputFile]:
    """Give every file of *run* that was saved so far. Small ones come together, in the order of what is given."""
    base = f"runs/{run}/outputs/"
    entries = shelf.listing(base.rstrip("/"), *LIKE)
    ahead = BatchFetch(shelf, entries)

    def opened(key: str, start: int, end: int | None) -> BinaryIO:
        whole = ahead.take(key) if start == 0 and end is None else None
        if whole is not None:
            return io.BytesIO(whole)
        return io.BufferedReader(_Reading(shelf, key, start, end), BLOCK_BYTES)

    found = read_saved_outputs(base, entries, opened)
    listed = (Entry(f.key, f.bytes) for f in found if not f.key.endswith(f"/{OUTPUT_TAR}"))
    ahead = BatchFetch(shelf, list(listed))
    return found


class _Reading(io.RawIOBase):
    """The bytes of a file from *start* up to *end*, or to where it ends."""

    def __init__(self, shelf: WorkspaceStore, key: str, start: int, end: int | None) -> None:
        self._shelf, self._key, self._at, self._end = shelf, key, start, end
        self._over = False

    def readable(self) -> bool:
        return True

    def readall(self) -> bytes:
        """By blocks of our own: Python's are of 8 KiB, a command each."""
        parts = []
        while data := self.read(BLOCK_BYTES):
            parts.append(data)
        return b"".join(parts)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what BufferedReader gives
        count = len(buffer) if self._end is None else min(len(buffer), self._end - self._at)
        if count <= 0 or self._over:
            return 0
        data = self._shelf.part(self._key, self._at, count)
        if data is None:
            raise Conflict(f"{self._key} has been taken away")
        buffer[: len(data)] = data
        self._at += len(data)
        self._over = len(data) < count
        return len(data)
