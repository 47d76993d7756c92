"""Reading of a workspace on this machine without a shell, which would take fifty times as long.

The results have the format of the scripts that read a workspace elsewhere, so both have one parser. Every error here is
an OSError, after which the script is run, which reports the cause. Changes are always made by scripts.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO

FRESH_S = 60.0
GONE = (FileNotFoundError, NotADirectoryError)


class LocalWorkspace:
    """Reads one workspace. A missing file is None; files may disappear at any moment."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace

    def path(self, *parts: str) -> str:
        """Return the path of a key; a leading "~/" of the workspace is expanded as in `workspace.WHERE`."""
        home, rest = os.environ.get("HOME", ""), self.workspace
        if rest == "~" or rest.startswith("~/"):
            rest = home + rest[1:]
        return os.path.join(os.path.abspath(rest), *parts)

    def read(self, key: str) -> bytes | None:
        return _read(self.path(key))

    def size(self, key: str) -> int | None:
        return _size(self.path(key))

    def part(self, key: str, start: int, count: int) -> bytes | None:
        try:
            with _opened(self.path(key)) as stream:
                stream.seek(start)
                return stream.read(count)
        except GONE:
            return None

    def look(self, run: str) -> str | None:
        """Return what `workspace_poll.LOOK` prints for *run*; None without its record."""
        base = self.path("runs", run)
        if not _is_file(os.path.join(base, "record.json")):
            return None
        return "".join(f"{line}\n" for line in _lines(base))

    def notes(self, run: str, names: Iterable[str]) -> str:
        """Return each line of these files of *run* after the file's name, as `workspace_poll.NOTES` prints them."""
        contents = ((name, _read(self.path("runs", run, name))) for name in names)
        lines = ((name, line) for name, text in contents for line in _text(text).splitlines())
        return "".join(f"{name}:{line}\n" for name, line in lines)

    def changes(self, run: str, most: int) -> bytes:
        """Return the last changes of *run*, each after its file's name, as `elastic_records.CHANGES` prints them."""
        base = self.path("runs", run, "elastic")
        tasks = (f"./{task}/changes" for task in _names(base))
        paths = (f"{at}/{name}" for at in tasks for name in _names(os.path.join(base, at)))
        known = sorted(path for path in paths if path.rpartition("/")[2][:1].isdigit())
        contents = ((path, _read(os.path.join(base, path))) for path in known[-most:])
        return b"".join(b"%s:%s\n" % (path.encode(), text) for path, text in contents if text)


def _lines(base: str) -> Iterator[str]:
    owned = [name for name in sorted(_names(base)) if name.startswith(("claim.", "job."))]
    for name in ("claim", "job", "last", *owned):
        content = _read(os.path.join(base, name))
        if content is not None:
            yield f"{name} {_text(content)}"
    claims = ("claim", *(name for name in owned if name.startswith("claim.")))
    if time.time() - max(_changed_s(os.path.join(base, name)) for name in claims) < FRESH_S:
        yield "fresh"
    for folder in ("ends", "failures", "stop", "released", "failed"):
        for path in _files(os.path.join(base, folder)):
            yield path[len(base) + 1 :]
    for path in _files(os.path.join(base, "logs")):
        if path.endswith(".txt") and (size := _size(path)) is not None:
            yield f"{size} {path[len(base) + 1 :]}"


def _files(folder: str) -> Iterator[str]:
    for base, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            yield f"{base}/{name}"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except GONE:
        return []


def _raise(error: OSError) -> None:
    """Raise *error* unless a folder is missing; `os.walk` would treat any error as an empty folder."""
    if not isinstance(error, GONE):
        raise error


def _opened(path: str) -> BinaryIO:
    """Open a file. What is no file is as if it were missing: a pipe would wait for a program that writes to it."""
    stream = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise FileNotFoundError(path)
    return stream


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except GONE:
        return False


def _read(path: str) -> bytes | None:
    try:
        with _opened(path) as stream:
            return stream.read()
    except GONE:
        return None


def _size(path: str) -> int | None:
    """Return the size of a file. The file is opened, so that an NFS client asks for its present size."""
    try:
        with _opened(path) as stream:
            return os.fstat(stream.fileno()).st_size
    except GONE:
        return None


def _changed_s(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except GONE:
        return 0.0


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace").rstrip("\n")
