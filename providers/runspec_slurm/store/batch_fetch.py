"""Files that come together: one command brings many small ones, as one tar, each compared with its size and digest."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence

from runspec_slurm.store.workspace import Entry, WorkspaceStore

AT_ONCE_BYTES, AT_ONCE_FILES = 8 << 20, 1000
# keys come in, a line each; their digests go out, an empty line, and then all of them
TOGETHER = """\
while IFS= read -r k; do set -- "$@" "$k"; done
sha256sum -- "$@"
echo
tar -chf - -- "$@"
exit 0
"""


class BatchFetch:
    """Brings *entries*, which are asked for in that order, whole; what is large is left to whoever asks."""

    def __init__(self, store: WorkspaceStore, entries: Sequence[Entry]) -> None:
        self.store = store
        self._entries = entries
        self._places = {entry.key: at for at, entry in enumerate(entries)}
        self._there: dict[str, bytes] = {}

    def take(self, key: str) -> bytes | None:
        """Return the content of *key*; None for what does not come this way: it is large, or was changed meanwhile."""
        if key not in self._there and (at := self._places.get(key)) is not None:
            self._there = self._brought(list(self._next(at)))
        return self._there.pop(key, None)

    def _next(self, at: int) -> Iterator[Entry]:
        """Yield what is worth fetching with the entry at *at*, which is the first, or nothing where that is large."""
        budget = AT_ONCE_BYTES
        for number, entry in enumerate(self._entries[at : at + AT_ONCE_FILES]):
            if entry.size <= budget and "\n" not in entry.key:
                budget -= entry.size
                yield entry
            elif number == 0:
                return

    def _brought(self, wanted: Sequence[Entry]) -> dict[str, bytes]:
        if len(wanted) < 2:
            return {}
        lines = "".join(f"{entry.key}\n" for entry in wanted).encode(errors="surrogateescape")
        found = self.store.look(f"read {len(wanted)} files", TOGETHER, content=[lines]) or b""
        return dict(read(found, {entry.key: entry.size for entry in wanted}))


def read(found: bytes, sizes: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """Read what TOGETHER tells: the files that have their size and digest."""
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
    except tarfile.TarError:  # what was read until here is whole, and the rest comes one by one
        return
