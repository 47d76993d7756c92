"""What a run has saved as a folder that is uploaded to another store, straight from the first."""

from __future__ import annotations

import hashlib
import io
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from runspec_agent.store.manifest import (
    MANIFEST,
    OBJECTS,
    OURS,
    Entry,
    Folder,
    Link,
    Manifest,
    Save,
    Shape,
)
from runspec_agent.transfer.folder_walk import RESERVED
from runspec_jobs.engine.outputs.layout import Layout, choose_path
from runspec_jobs.errors import Conflict, UsageError
from runspec_jobs.provider import File, OutputFile, Source
from runspec_jobs.provider.types import WHOLE

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_BYTES = 1 << 20
BUNDLE = b"runspec.bundle/v1\n"  # as of `load.bundle`: the digest of a file is the SHA-256 of its content


def _get_output(file: OutputFile) -> str:
    return file.output


@dataclass(frozen=True)
class SavesBundle:
    """A `Bundle` of saved files; *small* are those that are made here, and *objects* those in the store of the run.

    The content is read from that store each time that a file is opened, so this machine needs no room for it.
    """

    files: tuple[File, ...]
    small: Mapping[str, bytes]
    objects: Mapping[str, OutputFile]

    @staticmethod
    def of(
        saved: Iterable[OutputFile], choose_folder: Callable[[OutputFile], str] = _get_output
    ) -> SavesBundle:
        """Return the files, folders and links *saved* as saves, from which the agent restores all of them.

        Those of one save lie in one folder, by default that of their output: a manifest at `.runspec/manifest.json`,
        and its objects below that.
        """
        by_folder: dict[str, list[OutputFile]] = {}
        for one in saved:
            ours = one.path.split("/", 1)[0] == OURS  # only in a tar, which has no manifest
            kept = one._replace(kind="lost", target=RESERVED) if ours else one
            by_folder.setdefault(choose_folder(one), []).append(kept)
        small: dict[str, bytes] = {}
        objects: dict[str, OutputFile] = {}
        for folder, files in by_folder.items():
            entries = {one.path: _entry(one) for one in files if one.kind == "file"}
            manifest = Manifest((Save(files[0].save, 0, entries, _shape(files)),))
            small[f"{folder}/{MANIFEST}"] = manifest.to_bytes()
            for one in files:
                # A link to a file of the same save has no object of its own.
                if one.kind == "file" and not one.target:
                    entry = entries[one.path]
                    objects[f"{folder}/{OBJECTS}{entry.object}"] = one._replace(sha256=entry.sha256)
        listed = [
            *(
                File(p, len(c), False, hashlib.sha256(c).hexdigest(), 0o600)
                for p, c in small.items()
            ),
            *(File(path, one.bytes, False, one.sha256, 0o600) for path, one in objects.items()),
        ]
        return SavesBundle(tuple(sorted(listed)), small, objects)

    @staticmethod
    def laid_out(saved: Iterable[OutputFile], shape: Layout) -> SavesBundle:
        """Return the files *saved* at the paths that they have in a mount, for jobs without a Python agent.

        Links to files become files, and empty folders are left out. Raises UsageError for a link to anything else.
        """
        objects: dict[str, OutputFile] = {}
        for one in saved:
            path = str(choose_path(Path(), one._replace(output=""), shape))
            if one.kind == "link":
                message = f"{path} is a link to a folder, or to nothing"
                raise UsageError(
                    f"a job without a Python agent cannot mount this output: {message}"
                )
            if one.kind == "file":
                objects[path] = one._replace(sha256=one.sha256 or _sha256(one))
        listed = (_list_plain(path, one) for path, one in objects.items())
        return SavesBundle(tuple(sorted(listed)), {}, objects)

    @property
    def digest(self) -> str:
        sha256 = hashlib.sha256(BUNDLE)
        for file in self.files:
            kind = "x" if file.executable else "-"
            line = f"{file.sha256} {kind} {file.bytes} {file.path}\0"
            sha256.update(line.encode(errors="surrogateescape"))
        return f"{WHOLE}{sha256.hexdigest()}"

    @property
    def source(self) -> Source:
        return Source(self.digest, len(self.files), sum(file.bytes for file in self.files))

    def open(self, file: File) -> BinaryIO:
        if file.path in self.small:
            return io.BytesIO(self.small[file.path])
        changed = Conflict(f"{file.path} differs from what was saved", "runspec apply --new")
        return io.BufferedReader(
            _Checked(self.objects[file.path].open(), file, changed), READ_BYTES
        )


def _list_plain(path: str, of: OutputFile) -> File:
    mode = _mode(of) if of.mode is not None else 0o644
    executable = bool(mode & stat.S_IXUSR)
    return File(path, of.bytes, executable, of.sha256, mode, (of.mtime_ns or 0) // 10**9)


def _entry(of: OutputFile) -> Entry:
    """Return the entry of a file in the manifest; its object is called by its content."""
    sha256 = of.sha256 or ("" if of.target else _sha256(of))
    made = "" if of.target else sha256
    return Entry(of.bytes, of.mtime_ns or 0, sha256, made, of.mode, of.target)


def _sha256(of: OutputFile) -> str:
    """Return the digest of a file whose save has none: it was saved as a tar."""
    sha256 = hashlib.sha256()
    with of.open() as stream:
        while data := stream.read(READ_BYTES):
            sha256.update(data)
    return sha256.hexdigest()


def _shape(files: Sequence[OutputFile]) -> Shape:
    folders = {f.path: Folder(_mode(f), f.mtime_ns or 0) for f in files if f.kind == "folder"}
    links = {f.path: Link(f.target, f.mtime_ns or 0) for f in files if f.kind == "link"}
    return Shape(folders, links, {f.path: f.target for f in files if f.kind == "lost"})


def _mode(of: OutputFile) -> int:
    return 0o755 if of.mode is None else of.mode


class _Checked(io.RawIOBase):
    """Reads a file of a save, and raises *changed* before its end if its content is not what was saved."""

    def __init__(self, raw: BinaryIO, file: File, changed: Conflict) -> None:
        self._raw, self._file, self._changed = raw, file, changed
        self._sha256, self._size = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._raw.read(len(view))
        view[: len(data)] = data
        self._sha256.update(data)
        self._size += len(data)
        # The digest is compared with the last bytes and not after them, because a reader may stop at the size.
        done = not data or self._size >= self._file.bytes
        if done and (self._size, self._sha256.hexdigest()) != (self._file.bytes, self._file.sha256):
            raise self._changed
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()
