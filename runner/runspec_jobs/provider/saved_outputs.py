"""Reads the outputs that jobs saved in an object store, either with manifests or as one tar."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol

from runspec_jobs.errors import RemoteError
from runspec_jobs.provider.job_manifest import OUTPUT_TAR
from runspec_jobs.provider.tar_stream import members
from runspec_jobs.provider.types import OutputFile

MANIFEST = "/.runspec/manifest.json"
OBJECTS = "/.runspec/objects/"
PUBLISHED = "/.runspec/published"
FORMATS = ("runspec.outputs/v1", "runspec.outputs/v2")
DAMAGED = "nothing was written; the manifest is damaged, or someone has changed it"
SENT = f"/{OUTPUT_TAR}"
Reads = Callable[[Sequence[str]], Sequence[bytes | None]]
"""Reads the small objects of several keys, in their order; None stands for one that does not exist."""
Opens = Callable[[str, int, int | None], BinaryIO]
"""Opens the object of a key from one byte up to another, or to its end."""


def read_saved_outputs(
    base: str, entries: Iterable[tuple[str, int]], opened: Opens
) -> list[OutputFile]:
    """Return the files of all saves of outputs whose keys begin with *base*, which ends with "/".

    *entries* are all keys with their sizes in bytes. A manifest lists only files that are complete. Raises RemoteError
    for a tar or a manifest that is damaged, and for a manifest of a newer version.
    """
    found: list[OutputFile] = []
    for key, size in entries:
        for end, files in ((MANIFEST, _listed), (SENT, _sent)):
            parts = key[len(base) : -len(end)].split("/") if key.endswith(end) else []
            if len(parts) == 3:  # a longer key is a file of the job with its plain name
                name, task, rank = parts
                of = OutputFile(name, int(task), int(rank), "", size, _none, key=key)
                found += files(of, opened)
    return sorted(found, key=lambda f: (f.output, f.task, f.rank, f.save, f.path))


def newest(files: Iterable[OutputFile]) -> list[OutputFile]:
    """Return those of *files* that are in the last save of their output and node."""
    return [file for file in files if file.newest]


class Copy(NamedTuple):
    """An object of a save, and the plain key to which it is copied."""

    source: str
    target: str
    bytes: int


class Publication(NamedTuple):
    """The steps until one output of one node has plain names: copy, delete, and then write *key*."""

    folder: str  # the prefix of all keys of the output, without the last "/"
    copies: tuple[Copy, ...]
    stale: tuple[str, ...]  # plain keys of an earlier save that this save lacks
    save: int

    @property
    def key(self) -> str:
        """The key of the note, which is written last."""
        return self.folder + PUBLISHED

    def note(self, refused: Collection[str] = ()) -> bytes:
        """Return the note in the form of `runspec_agent.transfer.output_saver`, without the *refused* keys."""
        there = {copy.target for copy in self.copies} - set(refused)
        files = sorted(key[len(self.folder) + 1 :] for key in there)
        return json.dumps({"save": self.save, "files": files}).encode()

    def begun(self) -> bytes:
        """Return the note that is written first, with all names that may exist if this process is killed."""
        keys = {*self.stale, *(copy.target for copy in self.copies)}
        files = sorted(key[len(self.folder) + 1 :] for key in keys)
        return json.dumps({"save": 0, "files": files}).encode()


def unpublished(base: str, keys: Iterable[str], read: Reads) -> list[Publication]:
    """Return the outputs below *base* whose newest saves do not have plain names yet, with the steps for each.

    *keys* are all keys that exist. The number of a save is unique in its output, because its manifest is replaced only
    by conditional writes. Raises RemoteError for a damaged manifest or note, and for a path in one of them that would
    leave its output or overwrite runspec's own objects.
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


class PublicationStore(Protocol):
    """A store in which outputs are published. No method is called with a key for which `holds` is false."""

    def holds(self, key: str) -> bool:
        """Return whether the store allows an object with that key."""

    def read_all(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Return the content of small objects in the order of *keys*, or None for one that does not exist."""

    def put(self, key: str, content: bytes) -> None:
        """Write a small object; it replaces an existing one."""

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        """Delete those of *keys* that exist; there is at least one key, and all are below *folder*."""

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        """Carry out *copies*; there is at least one, and all are below *folder*."""


def publish(store: PublicationStore, base: str, keys: Iterable[str]) -> list[str]:
    """Copy the newest saves below *base* to plain names; return the names that *store* does not allow, without *base*.

    *keys* are all keys that exist. Raises the errors of `unpublished` and of *store*.
    """
    refused: list[str] = []
    for left in unpublished(base, keys, store.read_all):
        refused += _finish(store, left)
    return [key[len(base) :] for key in refused]


def _finish(store: PublicationStore, left: Publication) -> list[str]:
    """Carry out *left* and write the note last; return the keys that *store* does not allow."""
    refused = [copy.target for copy in left.copies if not store.holds(copy.target)]
    store.put(left.key, left.begun())
    if stale := [key for key in left.stale if store.holds(key)]:
        store.remove_all(stale, left.folder)
    if wanted := [copy for copy in left.copies if copy.target not in refused]:
        store.copy_all(wanted, left.folder)
    store.put(left.key, left.note(refused))
    return refused


def _left(key: str, manifest: bytes | None, note: bytes | None) -> Publication | None:
    """Return the steps for the output whose manifest is at *key*, or None if there are none."""
    folder = key.removesuffix(MANIFEST)
    if manifest is None:
        return None  # the manifest was deleted meanwhile
    of = OutputFile("", 0, 0, "", 0, _none, key=key)
    files = list(_listed(of, lambda *_: io.BytesIO(manifest)))
    record = json.loads(manifest)
    if not record.get("saves"):
        return None  # nothing was saved, or the first format was used, whose files have plain names
    save = int(record["saves"][-1]["number"])
    before, names = _noted(folder + PUBLISHED, note)
    if before == save:
        return None
    every = (Copy(f.key, _plain(folder, f.path), f.bytes) for f in files if f.save == save)
    copies = tuple(copy for copy in every if copy.source != copy.target)
    stale = {_plain(folder, name) for name in names} - {copy.target for copy in copies}
    return Publication(folder, copies, tuple(sorted(stale)), save)


def _noted(key: str, note: bytes | None) -> tuple[int, list[str]]:
    """Return the number of the published save, and its files, from a note."""
    if note is None:
        return 0, []
    try:
        record = json.loads(note)
        return int(record["save"]), [str(name) for name in record["files"]]
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise RemoteError(f"{key} is not a list of published files: {exc}") from exc


def _plain(folder: str, path: str) -> str:
    """Return the plain key of *path*; check it, because anyone who may write to the store may have changed it."""
    parts = path.split("/")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        parts = []
    if not parts or not {"", ".", ".."}.isdisjoint(parts) or parts[0] == ".runspec" or "\0" in path:
        raise RemoteError(f"{folder}: the saved path {path!r} would leave its output", DAMAGED)
    return f"{folder}/{path}"


def _none() -> BinaryIO:
    raise AssertionError("BUG: this is not a file")


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
        raise RemoteError(f"{of.key} is not a list of files: {exc}") from exc
    what = f"{of.key} was written by a newer version of runspec, as {str(written)[:80]}"
    raise RemoteError(what, "upgrade runspec")


def _files(record: Mapping[str, Any], of: OutputFile, opened: Opens) -> list[OutputFile]:
    """Return the files of a manifest of `runspec_agent.store.manifest`; the first format has one save."""
    saves = record["saves"] if "saves" in record else [{"number": 0, "files": record["files"]}]
    folder = of.key.removesuffix(MANIFEST)
    found = []
    for save in saves:
        for file in save["files"]:
            made = str(file.get("object", ""))
            if "/" in made:
                raise ValueError(f"{made} is not an object of this output")
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
        raise RemoteError(f"{of.key} is not a tar: {exc}") from exc
