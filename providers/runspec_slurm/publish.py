"""Plain names for what was saved: links to the objects, or copies where the file system has no links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runspec_jobs.provider import Publication, unpublished
from runspec_slurm import timing
from runspec_slurm.store.batch_fetch import BatchFetch
from runspec_slurm.store.workspace import WorkspaceStore, part_name

LIKE = ("*/.runspec/manifest.json", "*/.runspec/published")
# Names come in with a zero byte after each: they may hold anything else. A folder that a file has left empty goes, too.
DELETE = """\
xargs -0 -x -n 20 sh -c 'for k; do
  rm -f -- "$k" && { rmdir -p --ignore-fail-on-non-empty -- "${k%/*}" 2>/dev/null || :; } || exit 1
done' sh
"""
# An object and its plain name by turns; the name until a link is in its place. 20 of the longest names fit into
# what xargs gives to a program, which so never gets half a pair.
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


def publish(shelf: WorkspaceStore, run: str) -> list[str]:
    """Give the newest saves of *run* their plain names."""
    base = f"runs/{run}/outputs/"
    entries = shelf.listing(base.rstrip("/"), *LIKE)

    def read(keys: Sequence[str]) -> list[bytes | None]:
        there = {entry.key: entry for entry in entries}
        ahead = BatchFetch(shelf, [there[key] for key in keys])
        return [
            found if (found := ahead.take(key)) is not None else shelf.read(key) for key in keys
        ]

    for left in unpublished(base, [entry.key for entry in entries], read):
        _finish(shelf, left)
    return []


def _finish(shelf: WorkspaceStore, left: Publication) -> None:
    """Carry out *left* by four commands at the most; the note comes last."""
    shelf.put(left.key, left.begun())
    if left.stale:
        names = _names(left.stale)
        shelf.change(f"clear {left.folder}", DELETE, content=names, timeout_s=timing.STAGE_S)
    if left.copies:
        names = _names(name for copy in left.copies for name in (copy.source, copy.target))
        what = f"link what was saved in {left.folder}"
        shelf.change(what, LINK, part_name(), content=names, timeout_s=timing.STAGE_S)
    shelf.put(left.key, left.note())


def _names(names: Iterable[str]) -> list[bytes]:
    return [b"".join(name.encode(errors="surrogateescape") + b"\0" for name in names)]
