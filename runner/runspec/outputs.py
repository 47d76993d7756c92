"""Outputs as jobs leave them in an object store, whichever it is: by manifests, or as one tar."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from runspec.errors import RemoteError
from runspec.layout import OUTPUT_TAR
from runspec.tars import members
from runspec.values import OutputFile

MANIFEST = "/.runspec/manifest.json"
OBJECTS = "/.runspec/objects/"
FORMATS = ("runspec.outputs/v1", "runspec.outputs/v2")
SENT = f"/{OUTPUT_TAR}"
Opens = Callable[[str, int, int | None], BinaryIO]
"""Opens the object of a key from a byte up to another, or to its end."""


def saved_outputs(base: str, entries: Iterable[tuple[str, int]], opened: Opens) -> list[OutputFile]:
    """Give all files of outputs whose keys begin with *base*, which ends with "/", of every save that is kept.

    *entries* are the keys there are, whole, with their sizes in bytes. What a manifest lists is
    there; a file that is being written is in none. Raises RemoteError for a tar that is none, and for
    a manifest that is none or a later version's.
    """
    found: list[OutputFile] = []
    for key, size in entries:
        for end, files in ((MANIFEST, _listed), (SENT, _sent)):
            if key.endswith(end):
                name, task, rank = key[len(base) : -len(end)].split("/")
                found += files(
                    OutputFile(name, int(task), int(rank), "", size, _none, key=key), opened
                )
    return sorted(found, key=lambda f: (f.output, f.task, f.rank, f.save, f.path))


def newest(files: Iterable[OutputFile]) -> list[OutputFile]:
    """Give those of *files* that are of the last save of their output, each node's by itself."""
    kept = list(files)
    last = {f[:3]: f.save for f in sorted(kept, key=lambda f: f.save)}
    return [file for file in kept if file.save == last[file[:3]]]


def _none() -> BinaryIO:
    raise AssertionError("BUG: this is no file")


def _listed(of: OutputFile, opened: Opens) -> Iterator[OutputFile]:
    with opened(of.key, 0, None) as stream:
        text = stream.read()
    try:
        record = json.loads(text)
        written = record.get("format", FORMATS[0])
        if written in FORMATS:
            yield from _files(record, of, opened)
            return
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise RemoteError(f"{of.key} is no list of files: {exc}") from exc
    what = f"{of.key} was written by a newer version of runspec, as {str(written)[:80]}"
    raise RemoteError(what, "upgrade runspec")


def _files(record: Mapping[str, Any], of: OutputFile, opened: Opens) -> list[OutputFile]:
    """Read a manifest as `runspec_inside.manifest` writes it; the first format has one save, under plain names."""
    saves = record["saves"] if "saves" in record else [{"number": 0, "files": record["files"]}]
    folder = of.key.removesuffix(MANIFEST)
    found = []
    for save in saves:
        for file in save["files"]:
            made = str(file.get("object", ""))
            if "/" in made:
                raise ValueError(f"{made} is no object of this output")
            key = f"{folder}{OBJECTS}{made}" if made else f"{folder}/{file['path']}"
            found.append(
                of._replace(
                    path=str(file["path"]),
                    bytes=int(file["size"]),
                    open=partial(opened, key, 0, None),
                    save=int(save["number"]),
                    sha256=str(file.get("sha256", "")),
                    key=key,
                )
            )
    return found


def _sent(of: OutputFile, opened: Opens) -> Iterator[OutputFile]:
    def read(start: int, end: int) -> bytes:
        with opened(of.key, start, end) as stream:
            return stream.read()

    try:
        for file in members(read, of.bytes):
            end = file.start + file.bytes
            opens = partial(opened, of.key, file.start, end)
            yield of._replace(path=file.path, bytes=file.bytes, open=opens)
    except tarfile.TarError as exc:
        raise RemoteError(f"{of.key} is no tar: {exc}") from exc
