"""Records of an elastic job in the workspace: its end, and its membership changes."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.provider import MembershipChange, Status
from runspec_jobs.provider.elastic_tasks import elastic_end, elastic_status
from runspec_jobs.provider.machines import Usage, read_usage
from runspec_jobs.provider.types import changes_of
from runspec_slurm.store.workspace import NOTHING, Entry, WorkspaceStore

MOST = 10_000  # changes of a run that are read, counted from the last one
# Arguments: the run, and how many changes. Prints the line of each record after the name of its file.
CHANGES = f"""\
cd "runs/$1/elastic" 2>/dev/null || exit {NOTHING}
find ./*/changes -name '[0-9]*' -type f 2>/dev/null | sort | tail -n "$2" | xargs grep '' /dev/null
exit 0
"""
LINE = re.compile(rb"\./(\d+)/changes/\d+:(.*)")


def is_elastic_over(
    store: WorkspaceStore, run: str, record: Mapping[str, Any], ended: Status
) -> Status:
    """Return the final status of the run: the one that its nodes recorded, or else *ended*."""
    end = read_elastic_end(store, run, record)
    return ended if end is None else elastic_status(end, ended.nodes)


def read_elastic_end(
    store: WorkspaceStore, run: str, record: Mapping[str, Any]
) -> tuple[int, str] | None:
    """Return the exit code and the reason of an elastic job that is over, or None."""
    count = record["count"] // (record["elastic"]["max"] if record.get("elastic") else 1)
    return elastic_end(record, count, lambda path: store.read("runs", run, *path.split("/")))


def read_changes(store: WorkspaceStore, run: str) -> list[MembershipChange]:
    """Return the membership changes of an elastic job, with one command or, for a local workspace, none."""
    if there := store.nearby(lambda near: near.changes(run, MOST)):
        text = there[0]
    else:
        text = store.look(f"read the changes of {run}", CHANGES, run, str(MOST)) or b""
    return changes_of(_records(text))


def _records(text: bytes) -> Iterator[tuple[int, bytes]]:
    for line in text.splitlines():
        if match := LINE.fullmatch(line):
            yield int(match[1]), match[2]


# What nodes used, as `runspec_agent.usage` wrote it to the workspace.


def get_usage(store: WorkspaceStore, run: str, most: int | None) -> Usage:
    """Return the usage of the nodes of *run*: with two commands, or a third for each record that has just changed."""
    base = f"runs/{run}/usage/"
    entries = {entry.key: entry for entry in store.listing(base.rstrip("/"))}

    def read(names: Sequence[str]) -> list[bytes | None]:
        keys = [base + name for name in names]
        ahead = BatchFetch(store, [entries[key] for key in keys])
        return [_either(ahead.take(key), store, key) for key in keys]

    return read_usage((key[len(base) :] for key in entries), read, most)


def _either(content: bytes | None, store: WorkspaceStore, key: str) -> bytes | None:
    return store.read(key) if content is None else content


# Fetching of many small files by one command, as one tar; the size and digest of each file are verified.


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
        output = self.store.look(f"read {len(wanted)} files", TOGETHER, content=[lines]) or b""
        return dict(read_batch(output, {entry.key: entry.size for entry in wanted}))


def read_batch(output: bytes, sizes: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """Yield the files in the output of TOGETHER whose size and digest are right."""
    said, _, packed = output.partition(b"\n\n")
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
