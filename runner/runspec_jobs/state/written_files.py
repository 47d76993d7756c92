"""What runspec wrote into folders of the user, so that it can tell these files from the user's own.

`fetch`, `logs --save` and `report --html` note what they have written. Such a file is no part of a mounted folder, and
the same command may replace it, as long as nobody has changed it. For each folder there is a file in the state folder;
if it is lost, the files count as the user's own. A folder that was moved is recognized by its inode.

While a command writes, another file says what it is about to write, and stays if the command is killed: see
`record_writing`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs import record_formats
from runspec_jobs.errors import Conflict, FileFailed
from runspec_jobs.provider import paths
from runspec_jobs.state import atomic_io
from runspec_jobs.state.atomic_io import UNFINISHED

FORMAT = "runspec.written/v1"
SHOWN = 3  # the most files in one message
ANY = -1  # the size of a file that is being written, whose size and time change
# The errors of reading a file that runspec has not written.
NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class Written(NamedTuple):
    """A file as *command*, such as "fetch", has written it for *run*."""

    command: str
    run: str
    bytes: int
    mtime_ns: int

    def is_still(self, status: os.stat_result) -> bool:
        """Return whether the file, or the link itself, is as it was written."""
        return self.bytes == ANY or (self.bytes, self.mtime_ns) == (
            status.st_size,
            status.st_mtime_ns,
        )


class WrittenFiles:
    """The files that runspec wrote, as far as they are on record. Folders are given without links."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        with contextlib.suppress(OSError):
            self._names = frozenset(os.listdir(_find_place()))
        self._known: dict[str, Mapping[str, list[Written]]] = {}

    def select_folder(self, folder: str) -> Mapping[str, list[Written]]:
        """Return what was written into *folder* by one name, by paths that start there.

        A file has several entries if a command was killed that was to write it again.
        """
        if folder not in self._known:
            known: dict[str, list[Written]] = {}
            for name, written in _read_recorded(folder, self._names).items():
                known.setdefault(name, []).append(written)
            for path in _list_unfinished(folder, self._names):
                for name, written in _read(path, folder).items():
                    known.setdefault(name, []).append(written)
            self._known[folder] = known
        return self._known[folder]

    def has(self, path: Path) -> bool:
        """Return whether something is on record for *path*, which may have changed since."""
        folder = os.path.realpath(path.parent)
        return path.name in self.select_folder(folder)

    def find(
        self,
        path: str,
        status: os.stat_result,
        top: str = "/",
        by: tuple[str, str] | None = None,
    ) -> tuple[str, Written] | None:
        """Return what was written to *path*, with the folder that was named, which is *top* or below it.

        *status* is that of *path*, without following links. The result is None if the file has changed since. With
        *by*, a command and a run, only what that command wrote for that run counts.
        """
        if not self._names:
            return None
        folder = os.path.dirname(path)
        while True:
            for written in self.select_folder(folder).get(os.path.relpath(path, folder), ()):
                if written.is_still(status) and by in (None, written[:2]):
                    return folder, written
            if folder in (top, "/"):
                return None
            folder = os.path.dirname(folder)


def note(folder: Path, command: str, run: str, files: Iterable[Path]) -> None:
    """Note that *command* has written *files* for *run*, which lie in *folder*.

    If the state folder cannot be written, they count as the user's own: what was asked for is done.
    """
    real = os.path.realpath(folder)
    new = dict(_list_written(real, command, run, files))
    if not new:
        return
    path = _find_place() / _make_file_name(real)
    with contextlib.suppress(FileFailed), atomic_io.translate_os_errors(path):
        atomic_io.make_folder(path.parent)
        with atomic_io.hold_lock(path.parent / "lock", "another runspec that notes what it wrote"):
            _add(real, new)


def copy_records(home: Path) -> None:
    """Copy what is on record to the state folder *home*, so that folders mean there what they mean here.

    What cannot be copied counts as the user's own there.
    """
    place = _find_place()
    with contextlib.suppress(OSError, shutil.Error):
        shutil.copytree(place, home / place.name, dirs_exist_ok=True)


@contextlib.contextmanager
def record_writing(
    folder: Path,
    command: str,
    run: str,
    files: Mapping[Path, tuple[int, int]],
    others: Iterable[Path] = (),
) -> Iterator[str]:
    """Have it on record meanwhile that *command* writes *files*, and yield how names of its unfinished files begin.

    *files* have the sizes and times, in ns, that they will have. A file whose size changes has ANY, and is on record as
    long as it exists, so that the same command can continue it. *others* are written too, with times that nobody knows
    yet. What killed processes have left unfinished in *folder* is removed. If the state folder cannot be written,
    nothing is on record.
    """
    real, token = os.path.realpath(folder), secrets.token_hex(8)
    path = _find_place() / f"{_make_file_name(real)}-{token}"
    parents = {p.parent: os.path.realpath(p.parent) for p in (*files, *others)}
    expected = {
        os.path.relpath(os.path.join(parents[p.parent], p.name), real): Written(
            command, run, *stated
        )
        for p, stated in files.items()
    }
    folders = sorted({os.path.relpath(at, real) for at in parents.values()})
    fd = None
    with contextlib.suppress(FileFailed), atomic_io.translate_os_errors(path):
        atomic_io.make_folder(path.parent)
        with atomic_io.hold_lock(path.parent / "lock", "another runspec that notes what it wrote"):
            atomic_io.write(path, _format_content(real, expected, folders=folders))
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            atomic_io.lock(fd, path)
            # Under the lock and after the new note is on disk: a parallel command does not clean up what this one
            # writes.
            _clean_up(real, expected)
    try:
        yield f"{UNFINISHED}{token}-"
    finally:
        if fd is not None:
            # A copy of a log that can be continued keeps its note.
            if not any(_find_continued(real, expected)):
                path.unlink(missing_ok=True)
            os.close(fd)


def _add(folder: str, new: Mapping[str, Written]) -> None:
    """Add to the record of *folder*. The caller holds the lock."""
    path = _find_place() / _make_file_name(folder)
    known = {**_read_recorded(folder, frozenset(os.listdir(path.parent))), **new}
    atomic_io.write(path, _format_content(folder, known))
    link = path.with_name(_make_inode_name(folder))
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)


def _clean_up(folder: str, new: Collection[str]) -> None:
    """Remove what dead processes left unfinished in *folder*, and note what they finished.

    Their files that can be continued stay on record, unless the caller has recorded them: *new*.
    """
    for path in _list_unfinished(folder, os.listdir(_find_place())):
        with contextlib.suppress(OSError, *NOT_OURS), path.open("r+b") as file:
            # The process that wrote it is alive and holds the lock.
            if not atomic_io.lock(file.fileno(), path, wait=False):
                continue
            begins = f"{UNFINISHED}{path.name.rpartition('-')[2]}-"
            for parent in json.loads(file.read())["folders"]:
                _remove_parts(os.path.join(folder, parent), begins)
            files = _read(path, folder)
            if finished := dict(_find_unchanged(folder, files)):
                _add(folder, finished)
            if not set(_find_continued(folder, files)).difference(new):
                path.unlink()


def _remove_parts(folder: str, begins: str) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in os.listdir(folder):
            if name.startswith(begins) and name.endswith(".part"):
                os.unlink(os.path.join(folder, name))


def _find_continued(folder: str, files: Mapping[str, Written]) -> Iterator[str]:
    """Yield the names of the *files* with a size that changes which exist in *folder*."""
    for name, written in files.items():
        if written.bytes == ANY and os.path.lexists(os.path.join(folder, name)):
            yield name


def _find_unchanged(folder: str, files: Mapping[str, Written]) -> Iterator[tuple[str, Written]]:
    for name, written in files.items():
        with contextlib.suppress(OSError):
            if written.bytes != ANY and written.is_still(os.lstat(os.path.join(folder, name))):
                yield name, written


def has_changed(path: Path) -> bool:
    """Return whether runspec wrote the file *path*, as far as that is on record, and somebody has changed it since."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        known = WrittenFiles().select_folder(os.path.realpath(path.parent)).get(path.name, [])
        return bool(known) and not any(written.is_still(status) for written in known)
    return False


def demand_free(
    wanted: Mapping[Path, str], command: str, run: str, *, force: bool, way_out: str
) -> None:
    """Raise Conflict if files would be replaced that are not runspec's own; *way_out* is what else the user can do.

    *wanted* has the digest of what is to be written to each path, or "" if it is not known. A file may be replaced
    if *force* is true, if it has that digest already, or if *command* has written it for *run* and nobody has changed
    it since. Devices and pipes, and links to them, are written to and not replaced.
    """
    if force:
        return
    known = WrittenFiles()
    lost = [
        path for path, sha256 in wanted.items() if _is_of_user(path, sha256, known, command, run)
    ]
    if lost:
        more = f" and {len(lost) - SHOWN:,} more" if len(lost) > SHOWN else ""
        names = ", ".join(f"'{path}'" for path in lost[:SHOWN])
        there = "exists and has" if len(lost) == 1 else "exist and have"
        message = f"{names}{more} {there} other content; nothing was written"
        raise Conflict(message, f"{way_out}, or replace what is there with --force")


def _is_of_user(path: Path, sha256: str, known: WrittenFiles, command: str, run: str) -> bool:
    if atomic_io.find_descriptor(path) is not None:
        return False
    try:
        status = path.lstat()
        is_link = stat.S_ISLNK(status.st_mode)
        kind = path.stat().st_mode if is_link and path.exists() else status.st_mode
    except OSError:
        return False  # nothing is there, or the writer says what is wrong
    if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
        return False
    real = os.path.join(os.path.realpath(path.parent), path.name)
    if known.find(real, status, by=(command, run)):
        return False
    return is_link or not sha256 or _hash_file(path) != sha256


def _hash_file(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def _list_written(
    folder: str, command: str, run: str, files: Iterable[Path]
) -> Iterator[tuple[str, Written]]:
    for path in files:
        with contextlib.suppress(OSError):
            status = path.lstat()
            real = os.path.join(os.path.realpath(path.parent), path.name)
            if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                written = Written(command, run, status.st_size, status.st_mtime_ns)
                yield os.path.relpath(real, folder), written


def _find_place() -> Path:
    return paths.find_home() / "written"


def _make_file_name(folder: str) -> str:
    return f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def _make_inode_name(folder: str) -> str:
    device, inode = _read_inode(folder)
    return f"at-{device}-{inode}"


def _read_inode(folder: str) -> list[int]:
    status = os.stat(folder)
    return [status.st_dev, status.st_ino]


def _format_content(folder: str, files: Mapping[str, Written], **more: list[str]) -> bytes:
    content = {
        **record_formats.make_format_keys(FORMAT),
        "folder": folder,
        "inode": _read_inode(folder) if os.path.isdir(folder) else None,
        "files": {name: list(written) for name, written in sorted(files.items())},
        **more,
    }
    return json.dumps(content).encode()


def _read_recorded(folder: str, names: Collection[str]) -> dict[str, Written]:
    """Return the record of *folder*, also if it had another path; *names* are those of all records."""
    if (name := _make_file_name(folder)) in names:
        return _read(_find_place() / name, folder)
    with contextlib.suppress(OSError):
        if (link := _make_inode_name(folder)) in names:
            return _read(_find_place() / link, folder)
    return {}


def _list_unfinished(folder: str, names: Iterable[str]) -> list[Path]:
    """Return the records of commands that write into *folder*, or were killed."""
    begins = f"{_make_file_name(folder)}-"
    return [_find_place() / name for name in names if name.startswith(begins)]


def _read(path: Path, folder: str) -> dict[str, Written]:
    """Return what *path* says about *folder*; nothing if it cannot be read, or is of a newer version."""
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            return {}
        if content["folder"] != folder and content.get("inode") != _read_inode(folder):
            return {}
        return {
            str(name): Written(str(fields[0]), str(fields[1]), int(fields[2]), int(fields[3]))
            for name, fields in content["files"].items()
        }
    except (OSError, *NOT_OURS):
        return {}
