"""Fetching of many small files by one command, as one tar; the size and digest of each file are verified."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence

from runspec_slurm.store.workspace import Entry, WorkspaceStore

AT_ONCE_BYTES, AT_ONCE_FILES = 8 << 20, 1000
# Standard input: keys, one on each line. Prints their digests, an empty line, and a tar of the files.
TOGETHER = """\
while IFS= read -r k; do [ ! -f "$k" ] || set -- "$@" "$k"; done
sha256sum -- "$@"
echo
tar -chf - -- "$@"
exit 0
"""


class BatchFetch:
    """Fetches *entries*, which are taken in this order. Large files are left to the caller."""

    def __init__(self, store: WorkspaceStore, entries: Sequence[Entry]) -> None:
        self.store = store
        self._entries = entries
        self._places = {entry.key: at for at, entry in enumerate(entries)}
        self._there: dict[str, bytes] = {}

    def take(self, key: str) -> bytes | None:
        """Return the content of *key*; None if the file is large or has just changed, and must be read by itself."""
        if key not in self._there and (at := self._places.get(key)) is not None:
            self._there = self._fetched(list(self._next(at)))
        return self._there.pop(key, None)

    def _next(self, at: int) -> Iterator[Entry]:
        """Yield the entries to fetch together, from the one at *at*; nothing if that one is large."""
        budget = AT_ONCE_BYTES
        for number, entry in enumerate(self._entries[at : at + AT_ONCE_FILES]):
            if entry.size <= budget and "\n" not in entry.key:
                budget -= entry.size
                yield entry
            elif number == 0:
                return

    def _fetched(self, wanted: Sequence[Entry]) -> dict[str, bytes]:
        if len(wanted) < 2:
            return {}
        lines = "".join(f"{entry.key}\n" for entry in wanted).encode(errors="surrogateescape")
        found = self.store.look(f"read {len(wanted)} files", TOGETHER, content=[lines]) or b""
        return dict(read(found, {entry.key: entry.size for entry in wanted}))


def read(found: bytes, sizes: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """Yield the files in the output of TOGETHER whose size and digest are right."""
    said, _, packed = found.partition(b"\n\n")
    digests = dict[str, str]()
    for line in said.decode(errors="surrogateescape").splitlines():
        digest, _, name = line.partition("  ")
        digests[name] = digest
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                data = b"" if stream is None else stream.read()
                whole = hashlib.sha256(data).hexdigest() == digests.get(member.name)
                if stream is not None and whole and len(data) == sizes.get(member.name):
                    yield member.name, data
    except tarfile.TarError:  # the files up to here are complete; the others are read one by one
        return
