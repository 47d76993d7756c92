"""The saved outputs of jobs, which `runspec_agent` wrote to the workspace."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import BinaryIO

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Conflict, OutputFile
from runspec_jobs.provider.job_manifest import OUTPUT_TAR
from runspec_jobs.provider.saved_outputs import Copy, publish as publish_outputs, read_saved_outputs
from runspec_jobs.provider.streams.object_streams import RangedReader
from runspec_slurm.store.records import BatchFetch
from runspec_slurm.store.workspace import Entry, WorkspaceStore, part_name

BLOCK_BYTES = 8 << 20
OUTPUTS_LIKE = ("*/.runspec/manifest.json", f"*/{OUTPUT_TAR}")


def list_outputs(store: WorkspaceStore, run: str) -> Sequence[OutputFile]:
    """Return all files of *run* that were saved so far. Small files are fetched together, in the order returned."""
    base = f"runs/{run}/outputs/"
    entries = store.listing(base.rstrip("/"), *OUTPUTS_LIKE)
    ahead = BatchFetch(store, entries)

    def opened(key: str, start: int, end: int | None) -> BinaryIO:
        whole = ahead.take(key) if start == 0 and end is None else None
        if whole is not None:
            return io.BytesIO(whole)
        return io.BufferedReader(
            RangedReader(partial(_read, store, key), start, end, BLOCK_BYTES), BLOCK_BYTES
        )

    saved = read_saved_outputs(base, entries, opened)
    files = (f for f in saved if f.kind == "file" and not f.key.endswith(f"/{OUTPUT_TAR}"))
    listed = (Entry(f.key, f.bytes) for f in files)
    ahead = BatchFetch(store, list(listed))
    return saved


def _read(store: WorkspaceStore, key: str, start: int, end: int) -> bytes:
    data = store.part(key, start, end - start)
    if data is None:
        raise Conflict(f"{key} was deleted meanwhile", "repeat the command")
    return data


# Plain names for saved files: hard links to the objects, or copies if the file system has no hard links.


LIKE = ("*/.runspec/manifest.json", "*/.runspec/published")
# Standard input: names, each followed by a zero byte, since they may contain any other. Removes folders that become
# empty, too.
DELETE = """\
xargs -0 -x -n 20 sh -c 'for k; do
  rm -f -- "$k" && { rmdir -p --ignore-fail-on-non-empty -- "${k%/*}" 2>/dev/null || :; } || exit 1
done' sh
"""
# Argument: the name of a link until it is moved to its place. Standard input: objects and their plain names,
# alternating. 20 of the longest names fit into a command line of xargs, which therefore never splits a pair.
LINK = """\
export t="$1"
xargs -0 -x -n 20 sh -c 'while [ $# -gt 1 ]; do
  d=${2%/*}; p=$d/$t
  [ "$1" -ef "$2" ] && { shift 2; continue; }
  mkdir -p -- "$d" || exit 1
  ln -- "$1" "$p" 2>/dev/null || cp -- "$1" "$p" || { rm -f -- "$p"; exit 1; }
  mv -f -T -- "$p" "$2" || { rm -f -- "$p"; exit 1; }
  shift 2
done' sh
"""


def publish(store: WorkspaceStore, run: str) -> list[str]:
    """Copy the newest saves of *run* to their plain names; return an empty list, as every name is allowed."""
    base = f"runs/{run}/outputs/"
    entries = {entry.key: entry for entry in store.listing(base.rstrip("/"), *LIKE)}
    return publish_outputs(_Workspace(store, entries), base, entries)


class _Workspace(NamedTuple):
    store: WorkspaceStore
    entries: Mapping[str, Entry]

    def holds(self, key: str) -> bool:
        del key
        return True

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        ahead = BatchFetch(self.store, [self.entries[key] for key in keys])
        return [
            content if (content := ahead.take(key)) is not None else self.store.read(key)
            for key in keys
        ]

    def put(self, key: str, content: bytes) -> None:
        self.store.put(key, content)

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        timeout_s = self.store.timing.stage_s
        self.store.change(f"clear {folder}", DELETE, content=_names(keys), timeout_s=timeout_s)

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        names = _names(name for copy in copies for name in (copy.source, copy.target))
        what = f"link the files saved in {folder}"
        self.store.change(
            what, LINK, part_name(), content=names, timeout_s=self.store.timing.stage_s
        )


def _names(names: Iterable[str]) -> list[bytes]:
    return [b"".join(name.encode(errors="surrogateescape") + b"\0" for name in names)]
