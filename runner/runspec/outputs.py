"""Outputs as jobs leave them in an object store, whichever it is: by manifests, or as one tar."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import BinaryIO

from runspec.errors import RemoteError
from runspec.layout import OUTPUT_TAR
from runspec.tars import members
from runspec.values import OutputFile

MANIFEST = "/.runspec/manifest.json"
SENT = f"/{OUTPUT_TAR}"
Found = tuple[str, int, Callable[[], BinaryIO]]
Opens = Callable[[str, int, int | None], BinaryIO]
"""Opens the object of a key from a byte up to another, or to its end."""


def saved_outputs(base: str, entries: Iterable[tuple[str, int]], opened: Opens) -> list[OutputFile]:
    """Give all files of outputs whose keys begin with *base*, which ends with "/".

    *entries* are the keys there are, whole, with their sizes in bytes. What a manifest lists is
    there; a file that is being written is in none. Raises RemoteError for a tar that is none.
    """
    found: list[OutputFile] = []
    for key, size in entries:
        for end, files in ((MANIFEST, _listed), (SENT, _sent)):
            if key.endswith(end):
                name, task, rank = key[len(base) : -len(end)].split("/")
                mine = files(key, size, opened)
                found += [OutputFile(name, int(task), int(rank), *file) for file in mine]
    return sorted(found, key=lambda f: (f.output, f.task, f.rank, f.path))


def _listed(key: str, _size: int, opened: Opens) -> Iterator[Found]:
    with opened(key, 0, None) as stream:
        text = stream.read()
    folder = key.removesuffix(MANIFEST)
    try:
        files = [(str(file["path"]), int(file["size"])) for file in json.loads(text)["files"]]
    except (ValueError, LookupError, TypeError) as exc:
        raise RemoteError(f"{key} is no list of files: {exc}") from exc
    for path, size in files:
        yield path, size, partial(opened, f"{folder}/{path}", 0, None)


def _sent(key: str, size: int, opened: Opens) -> Iterator[Found]:
    def read(start: int, end: int) -> bytes:
        with opened(key, start, end) as stream:
            return stream.read()

    try:
        for file in members(read, size):
            end = file.start + file.bytes
            yield file.path, file.bytes, partial(opened, key, file.start, end)
    except tarfile.TarError as exc:
        raise RemoteError(f"{key} is no tar: {exc}") from exc
