"""Plain names for saved files: hard links to the objects, or copies if the file system has no hard links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from runspec_jobs.provider import Copy, publish as publish_outputs
from runspec_slurm.store.batch_fetch import BatchFetch
from runspec_slurm.store.workspace import Entry, WorkspaceStore, part_name

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
            found if (found := ahead.take(key)) is not None else self.store.read(key)
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
