"""Outputs as jobs leave them in an object store, whichever it is: by manifests, or as one tar."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from runspec_jobs.errors import RemoteError
from runspec_jobs.provider.job_manifest import OUTPUT_TAR
from runspec_jobs.provider.tar_stream import members
from runspec_jobs.provider.types import OutputFile

MANIFEST = "/.runspec/manifest.json"
OBJECTS = "/.runspec/objects/"
PUBLISHED = "/.runspec/published"
FORMATS = ("runspec.outputs/v1", "runspec.outputs/v2")
DAMAGED = "nothing was written there: the manifest is damaged, or somebody has changed it"
SENT = f"/{OUTPUT_TAR}"
Reads = Callable[[Sequence[str]], Sequence[bytes | None]]
"""Reads the small objects of keys, in that order; None for one that is not there."""
Opens = Callable[[str, int, int | None], BinaryIO]
"""Opens the object of a key from a byte up to another, or to its end."""


def read_saved_outputs(
    base: str, entries: Iterable[tuple[str, int]], opened: Opens
) -> list[OutputFile]:
    """Give all files of outputs whose keys begin with *base*, which ends with "/", of every save that is kept.

    *entries* are the keys there are, whole, with their sizes in bytes. What a manifest lists is
    there; a file that is being written is in none. Raises RemoteError for a tar that is none, and for
    a manifest that is none or a later version's.
    """
    found: list[OutputFile] = []
    for key, size in entries:
        for end, files in ((MANIFEST, _listed), (SENT, _sent)):
            parts = key[len(base) : -len(end)].split("/") if key.endswith(end) else []
            if len(parts) == 3:  # what lies deeper is a file of the job's, by its plain name
                name, task, rank = parts
                of = OutputFile(name, int(task), int(rank), "", size, _none, key=key)
                found += files(of, opened)
    return sorted(found, key=lambda f: (f.output, f.task, f.rank, f.save, f.path))


def newest(files: Iterable[OutputFile]) -> list[OutputFile]:
    """Give those of *files* that are of the last save of their output, each node's by itself."""
    return [file for file in files if file.newest]


class Copy(NamedTuple):
    """An object of a save, and the plain key it is to have as well."""

    source: str
    target: str
    bytes: int


class Publication(NamedTuple):
    """What is left to do until one output of one node has plain names: copy, delete, and then write *key*."""

    folder: str  # what all keys of the output begin with, without the last "/"
    copies: tuple[Copy, ...]
    stale: tuple[str, ...]  # plain keys of an earlier save that this save lacks
    save: int

    @property
    def key(self) -> str:
        """Where the note goes, as the last thing that is written."""
        return self.folder + PUBLISHED

    def note(self, refused: Collection[str] = ()) -> bytes:
        """Return the note in the form of `runspec_agent.transfer.output_saver`; it leaves out *refused* keys."""
        there = {copy.target for copy in self.copies} - set(refused)
        files = sorted(key[len(self.folder) + 1 :] for key in there)
        return json.dumps({"save": self.save, "files": files}).encode()

    def begun(self) -> bytes:
        """Return the note that goes first: whoever comes after one that is killed knows all names there may be."""
        keys = {*self.stale, *(copy.target for copy in self.copies)}
        files = sorted(key[len(self.folder) + 1 :] for key in keys)
        return json.dumps({"save": 0, "files": files}).encode()


def unpublished(base: str, keys: Iterable[str], read: Reads) -> list[Publication]:
    """Return what is left to do below *base* until the newest saves have plain names, an item for each such output.

    *keys* are those there are, whole. A save is known by its number, which no two saves of an output share: its
    manifest is only ever replaced on condition. Raises RemoteError for a manifest or a note that is none, and for a
    path in one of them that would lead out of its output or to what runspec keeps there.
    """
    there = {
        key for key in keys if key.startswith(base) and key[len(base) :].count("/") == 4
    }  # NAME/TASK/RANK/.runspec/FILE
    manifests = sorted(key for key in there if key.endswith(MANIFEST))
    notes = [key.removesuffix(MANIFEST) + PUBLISHED for key in manifests]
    wanted = [*manifests, *(note for note in notes if note in there)]
    found = dict(zip(wanted, read(wanted), strict=True))
    left = (
        _left(key, found[key], found.get(note)) for key, note in zip(manifests, notes, strict=True)
    )
    return [publication for publication in left if publication is not None]


def _left(key: str, manifest: bytes | None, note: bytes | None) -> Publication | None:
    """Return what is left to do for the output whose manifest is at *key*; None where nothing is."""
    folder = key.removesuffix(MANIFEST)
    if manifest is None:
        return None  # it was deleted meanwhile
    of = OutputFile("", 0, 0, "", 0, _none, key=key)
    files = list(_listed(of, lambda *_: io.BytesIO(manifest)))
    record = json.loads(manifest)
    if not record.get("saves"):
        return None  # nothing was saved, or by the first format, whose files have plain names
    save = int(record["saves"][-1]["number"])
    before, names = _noted(folder + PUBLISHED, note)
    if before == save:
        return None
    every = (Copy(f.key, _plain(folder, f.path), f.bytes) for f in files if f.save == save)
    copies = tuple(copy for copy in every if copy.source != copy.target)
    stale = {_plain(folder, name) for name in names} - {copy.target for copy in copies}
    return Publication(folder, copies, tuple(sorted(stale)), save)


def _noted(key: str, note: bytes | None) -> tuple[int, list[str]]:
    """Return which save a note says was published, and its files."""
    if note is None:
        return 0, []
    try:
        record = json.loads(note)
        return int(record["save"]), [str(name) for name in record["files"]]
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise RemoteError(f"{key} is no list of published files: {exc}") from exc


def _plain(folder: str, path: str) -> str:
    """Return the plain key of *path*, which anybody who may write to the store may have written."""
    parts = path.split("/")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        parts = []
    if not parts or not {"", ".", ".."}.isdisjoint(parts) or parts[0] == ".runspec" or "\0" in path:
        raise RemoteError(f"{folder}: the saved path {path!r} would leave its output", DAMAGED)
    return f"{folder}/{path}"


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
    """Read a manifest as `runspec_agent.store.manifest` writes it; the first format has one save, under plain names."""
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
                    newest=save is saves[-1],
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
