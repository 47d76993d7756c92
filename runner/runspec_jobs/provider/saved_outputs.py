"""Reads the outputs that jobs saved in an object store, either with manifests or as one tar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, Protocol

from runspec_agent.base.failure import Failure
from runspec_agent.base.light_typing import NamedTuple
from runspec_agent.store import manifest
from runspec_jobs.errors import RemoteError
from runspec_jobs.provider.job_manifest import OUTPUT_TAR
from runspec_jobs.provider.streams.tar_stream import list_members
from runspec_jobs.provider.types import OutputFile
from runspec_jobs.regex import regex

MANIFEST = f"/{manifest.MANIFEST}"
PUBLISHED = f"/{manifest.PUBLISHED}"
LARGEST_BYTES = 1 << 30  # of a manifest: millions of files
# The errors of reading what runspec has not written. RecursionError: JSON of ten thousand brackets.
NOT_OURS = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
NUMBER = regex("0|[1-9][0-9]{0,8}", re.ASCII)  # of a task or a node
DAMAGED = "nothing was written; the manifest is damaged, or someone has changed it"
SENT = f"/{OUTPUT_TAR}"
Reads = Callable[[Sequence[str]], Sequence[bytes | None]]
"""Reads the small objects of several keys, in their order; None stands for one that does not exist."""
Opens = Callable[[str, int, int | None], BinaryIO]
"""Opens the object of a key from one byte up to another, or to its end."""


def read_saved_outputs(
    base: str, entries: Iterable[tuple[str, int]], opened: Opens
) -> list[OutputFile]:
    """Return the content of all saves of outputs whose keys begin with *base*, which ends with "/".

    *entries* are all keys with their sizes in bytes. A manifest lists only files that are complete. Raises RemoteError
    for a tar or a manifest that is damaged, and for a manifest of a newer version.
    """
    outputs: list[OutputFile] = []
    for key, size in entries:
        for end, files in ((MANIFEST, _list_files), (SENT, _list_sent)):
            # NAME/TASK/RANK is before the manifest of an output; the job chose NAME, so it may be any text.
            parts = key[len(base) : -len(end)].split("/") if key.endswith(end) else []
            # A longer key is a file of the job with its plain name.
            if len(parts) == 3 and all(map(NUMBER.fullmatch, parts[1:])):
                name, task, rank = parts
                file = OutputFile(name, int(task), int(rank), "", size, _refuse_open, key=key)
                outputs += files(file, opened)
    return sorted(outputs, key=lambda f: (f.output, f.task, f.rank, f.save, f.path))


def select_newest(files: Iterable[OutputFile]) -> list[OutputFile]:
    """Return those of *files* that are in the last save of their output and node."""
    return [file for file in files if file.newest]


def select_with_content(files: Iterable[OutputFile]) -> list[OutputFile]:
    """Return the files, and links to files, among *files*."""
    return [file for file in files if file.kind == "file"]


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


def find_unpublished(base: str, keys: Iterable[str], read: Reads) -> list[Publication]:
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
    contents = dict(zip(wanted, read(wanted), strict=True))
    publications = (
        _plan_publication(key, contents[key], contents.get(note))
        for key, note in zip(manifests, notes, strict=True)
    )
    return [publication for publication in publications if publication is not None]


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

    *keys* are all keys that exist. Raises the errors of `find_unpublished` and of *store*.
    """
    refused: list[str] = []
    for publication in find_unpublished(base, keys, store.read_all):
        refused += _finish(store, publication)
    return [key[len(base) :] for key in refused]


def _finish(store: PublicationStore, publication: Publication) -> list[str]:
    """Carry out *publication* and write the note last; return the keys that *store* does not allow."""
    refused = [copy.target for copy in publication.copies if not store.holds(copy.target)]
    # First the note with every name that may exist, so that a later attempt can delete what a killed one has
    # copied.
    store.put(publication.key, publication.begun())
    if stale := [key for key in publication.stale if store.holds(key)]:
        store.remove_all(stale, publication.folder)
    if copies := [copy for copy in publication.copies if copy.target not in refused]:
        store.copy_all(copies, publication.folder)
    store.put(publication.key, publication.note(refused))
    return refused


def _plan_publication(key: str, content: bytes | None, note: bytes | None) -> Publication | None:
    """Return the steps for the output whose manifest is at *key*, or None if there are none."""
    folder = key.removesuffix(MANIFEST)
    if content is None:
        return None  # the manifest was deleted meanwhile
    saves = _read_manifest(key, content).saves
    if not saves or not saves[-1].number:
        return None  # nothing was saved, or the first format was used, whose files have plain names
    before, names = _parse_note(folder + PUBLISHED, note)
    if before == saves[-1].number:
        return None
    every = (
        Copy(
            manifest.object_key(f"{folder}/", path, entry),
            _make_plain_key(folder, path),
            entry.size,
        )
        for path, entry in saves[-1].files.items()
    )
    # Files of the first format have plain names from the start.
    copies = tuple(copy for copy in every if copy.source != copy.target)
    stale = {_make_plain_key(folder, name) for name in names} - {copy.target for copy in copies}
    return Publication(folder, copies, tuple(sorted(stale)), saves[-1].number)


def _parse_note(key: str, note: bytes | None) -> tuple[int, list[str]]:
    """Return the number of the published save, and its files, from a note."""
    if note is None:
        return 0, []
    try:
        record = json.loads(note)
        return int(record["save"]), [str(name) for name in record["files"]]
    except NOT_OURS as exc:
        raise RemoteError(f"{key} is not a list of published files: {exc}") from exc


def _make_plain_key(folder: str, path: str) -> str:
    """Return the plain key of *path*; check it, because anyone who may write to the store may have changed it."""
    parts = path.split("/")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        parts = []
    if not parts or not {"", ".", ".."}.isdisjoint(parts) or parts[0] == ".runspec" or "\0" in path:
        raise RemoteError(f"{folder}: the saved path {path!r} would leave its output", DAMAGED)
    return f"{folder}/{path}"


def _refuse_open() -> BinaryIO:
    raise AssertionError("BUG: this is not a file")


def _list_files(file: OutputFile, opened: Opens) -> Iterator[OutputFile]:
    with opened(file.key, 0, None) as stream:
        text = stream.read(LARGEST_BYTES + 1)
    saves = _read_manifest(file.key, text).saves
    folder = file.key.removesuffix(manifest.MANIFEST)
    for save in saves:
        file = file._replace(save=save.number, newest=save is saves[-1], saved_s=save.at or None)
        for path, entry in save.files.items():
            key = manifest.object_key(folder, path, entry)
            yield file._replace(
                path=path,
                bytes=entry.size,
                open=partial(opened, key, 0, None),
                sha256=entry.sha256,
                key=key,
                target=entry.link,
                mode=entry.mode,
                mtime_ns=entry.mtime_ns,
            )
        yield from _list_without_content(file._replace(bytes=0, key=""), save.shape)


def _list_without_content(file: OutputFile, shape: manifest.Shape) -> Iterator[OutputFile]:
    for path, folder in shape.folders.items():
        yield file._replace(path=path, kind="folder", mode=folder.mode, mtime_ns=folder.mtime_ns)
    for path, link in shape.links.items():
        yield file._replace(path=path, kind="link", target=link.target, mtime_ns=link.mtime_ns)
    for path, why in shape.lost.items():
        yield file._replace(path=path, kind="lost", target=why)


def _read_manifest(key: str, text: bytes) -> manifest.Manifest:
    """Return a manifest. Raises RemoteError if it is damaged, or if a newer version wrote it."""
    if len(text) > LARGEST_BYTES:
        raise RemoteError(f"{key} has more than {LARGEST_BYTES:,} bytes", DAMAGED)
    record: Any = None
    try:
        record = json.loads(text)
        if isinstance(record, dict):
            record = {"format": manifest.FIRST_FORMAT, "holder": "", **record}
        made = manifest.of(record, key)
    except Failure:
        message = (
            f"{key} was written by a newer version of runspec, as {str(record['format'])[:80]}"
        )
        raise RemoteError(message, "upgrade runspec") from None
    except NOT_OURS as exc:
        raise RemoteError(f"{key} is not a list of files: {exc}", DAMAGED) from exc
    if isinstance(record, dict) and record["format"] != manifest.FIRST_FORMAT:
        return made
    # The first format kept only one save, which had no number.
    return made._replace(saves=tuple(save._replace(number=0) for save in made.saves))


def _list_sent(output: OutputFile, opened: Opens) -> Iterator[OutputFile]:
    import tarfile  # slow to import, and few commands read a tar

    def read(start: int, end: int) -> bytes:
        with opened(output.key, start, end) as stream:
            return stream.read()

    try:
        for file in list_members(read, output.bytes):
            end = file.start + file.bytes
            opens = (
                partial(opened, output.key, file.start, end)
                if file.kind == "file"
                else _refuse_open
            )
            yield output._replace(
                path=file.path,
                bytes=file.bytes,
                open=opens,
                kind=file.kind,
                target=file.target,
                mode=file.mode,
                mtime_ns=file.mtime_ns,
            )
    except (tarfile.TarError, *NOT_OURS, OverflowError, EOFError) as exc:
        raise RemoteError(f"{output.key} is not a tar: {exc}", DAMAGED) from exc
