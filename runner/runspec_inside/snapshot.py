"""Reading an output folder as it was at one moment, while a program may write to it.

A file is read, and counts as read as long as it looks the same. What a later look at the whole folder finds unchanged
was all there at one moment, the beginning of that look.
"""

import errno
import io
import os
import stat
import time
from typing import IO, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from . import files, many
from .bucket import Opened, file_digest
from .manifest import OURS, Entry, Listed
from .words import Failure

CLOCK_TICK_S = 0.02  # kernels stamp files by a clock that ticks every 1 to 10 ms: two writes in one tick look the same
ROUNDS = 10  # of reading what has changed meanwhile
SMALL_BYTES = 4 << 20  # up to here a file is read at once
TOGETHER_BYTES = 64 << 20  # of small files in memory
COPIED_BYTES = 1 << 30  # of files that change while they are saved
SETTLED_S = 1.0  # without a change: who writes two files of one checkpoint has then most probably written both
PATIENCE_S = 10.0  # for that, with a program that writes all the time

Version = Tuple[
    int, int, Optional[int]
]  # size, time of the last write, and of the last change where it is known
Send = Callable[[Opened, int, str], str]


class Seen(NamedTuple):
    path: str  # with no link in it
    version: Version


class Held(NamedTuple):
    """The content of a file at one moment."""

    opened: Opened
    size: int
    digest: str


class Restless(Failure):
    """Files change faster than they can be read."""


class Snapshot:
    """The files of *folder*. *send* saves the content of one and returns the name of its object."""

    def __init__(self, folder: str, send: Send) -> None:
        self.folder, self._send = os.path.realpath(folder), send
        self._read: Dict[str, Tuple[Version, Entry]] = {}
        self._wrong: Dict[str, Tuple[Version, str]] = {}  # what cannot be read, and why

    def know(self, files: Listed) -> None:
        """Take *files* for read, as long as they look the same: who put them there gave them their times."""
        self._read = {n: ((e.size, e.mtime_ns, None), e) for n, e in files.items() if e.object}

    def wrong(self) -> List[str]:
        """Return a line for each file that could not be read."""
        return sorted("{}: {}".format(shown(n), why) for n, (_, why) in self._wrong.items())

    def settle(self, wait: Callable[[float], bool]) -> None:
        """Have *wait* wait so many seconds until nothing was written for a while, or until it returns True."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            newest = max((one.version[1] for one in look(self.folder).values()), default=0)
            left_s = SETTLED_S - (time.time() - newest / 1e9)
            if not 0 < left_s <= SETTLED_S or wait(left_s):
                return

    def taken(self) -> Listed:
        """Read what is new; return what the folder held at one moment.

        Raises Failure where the store takes no more, and Restless where there was no such moment.
        """
        burst: Set[str] = set()
        changed: List[str] = []
        for count in range(ROUNDS):
            seen = look(self.folder)
            changed = [name for name, one in seen.items() if not self._has(name, one.version)]
            if self._gone(seen) or not burst.issuperset(changed):
                burst = self._renewed(seen, changed, count > 0)
            else:
                return {name: entry for name, (_, entry) in self._read.items()}
        text = "files change faster than they can be saved, {} among them"
        raise Restless(text.format(shown(changed[0]) if changed else "those that go"))

    def _has(self, name: str, version: Version) -> bool:
        known = self._read.get(name) or self._wrong.get(name)
        return known is not None and known[0] in (version, (*version[:2], None))

    def _gone(self, seen: Dict[str, Seen]) -> bool:
        gone = [name for known in (self._read, self._wrong) for name in known if name not in seen]
        for name in gone:
            self._read.pop(name, None)
            self._wrong.pop(name, None)
        return bool(gone)

    def _renewed(self, seen: Dict[str, Seen], names: List[str], again: bool) -> Set[str]:
        """Read *names* anew; return those that were there together at one moment after all others were read.

        *again*: they changed while they were read the last time, so that large ones are copied first, too.
        """
        for name in names:
            self._read.pop(name, None)
            self._wrong.pop(name, None)
        most, room = (COPIED_BYTES,) * 2 if again else (SMALL_BYTES, TOGETHER_BYTES)
        held: Dict[str, Seen] = {}
        for name in names:
            size = seen[name].version[0]
            if size <= min(most, room):
                held[name] = seen[name]
                room -= size
        many.each(lambda name: self._stream(name, seen[name]), [n for n in names if n not in held])
        folder = files.fresh_folder("runspec-save-") if again else ""
        try:
            return self._together(held, folder)
        finally:
            if folder:
                files.remove_tree(folder)

    def _stream(self, name: str, one: Seen) -> None:
        def opened() -> IO[bytes]:
            return open(one.path, "rb")

        def read() -> None:
            before = _ticked([one])[0]
            size, digest = file_digest(one.path)
            if size != before[0] or _version(one.path) != before:
                return
            try:
                made = self._send(opened, size, digest)
            except Failure:
                if _version(one.path) == before:
                    raise
                return
            if _version(one.path) == before:
                self._read[name] = (before, Entry(size, before[1], digest, made))

        self._tried(name, one, read)

    def _together(self, held: Dict[str, Seen], folder: str) -> Set[str]:
        """Read files one after the other, at once, and save those that did not change meanwhile."""
        before = dict(zip(held, _ticked(list(held.values()))))
        contents: Dict[str, Held] = {}
        for name, one in held.items():

            def read(name: str = name, one: Seen = one) -> None:
                copy = os.path.join(folder, str(len(contents)))
                contents[name] = _held(one, copy if one.version[0] > SMALL_BYTES else "")

            self._tried(name, one, read)
        same = [n for n, held_ in contents.items() if _still(held[n].path, before[n], held_.size)]

        def save(name: str) -> None:
            content, version = contents[name], before[name]
            made = self._send(content.opened, content.size, content.digest)
            entry = Entry(content.size, version[1], content.digest, made)
            self._read[name] = (version, entry)

        many.each(save, same)
        return set(same) if len(same) == len(contents) else set()

    def _tried(self, name: str, one: Seen, read: Callable[[], None]) -> None:
        """Have *read* read a file. One that is gone by now is none, and one there is no room to copy is streamed."""
        try:
            if name.split("/", maxsplit=1)[0] == OURS:
                raise OSError("this name is taken")
            read()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOSPC, errno.EDQUOT):
                self._wrong[name] = (one.version, error.strerror or str(error))


def _held(one: Seen, copy: str) -> Held:
    """Return the content of a file, in memory or where a *copy* of it is to be."""
    if copy:
        import shutil  # of those alone that have it to do

        shutil.copyfile(one.path, copy)
        return Held(lambda: open(copy, "rb"), *file_digest(copy))
    import hashlib

    with open(one.path, "rb") as stream:
        content = stream.read()
    return Held(lambda: io.BytesIO(content), len(content), hashlib.sha256(content).hexdigest())


def _still(path: str, version: Version, size: int) -> bool:
    """Say whether a file is what it was, and *size* all of it."""
    return _version(path) == version and size == version[0]


def look(folder: str) -> Dict[str, Seen]:
    """Return the files of *folder* by their paths in it. Links count where they lead to a file inside."""
    inside = os.path.join(folder, "")
    found: Dict[str, Seen] = {}
    for path in regular_files(folder):
        real = os.path.realpath(os.path.join(folder, path))
        if not real.startswith(inside):
            continue
        try:
            status = os.stat(real)
        except OSError:  # it is gone by now
            continue
        if stat.S_ISREG(status.st_mode):
            found[known_as(path)] = Seen(real, _version_of(status))
    return found


def regular_files(source: str) -> Iterator[str]:
    """Yield paths from *source* of files and links, in order; folders that are links lead elsewhere or twice."""
    for folder, folders, names in os.walk(source):
        folders.sort()
        if folder == source and OURS in folders:
            folders.remove(OURS)
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield os.path.relpath(path, source)


def known_as(path: str) -> str:
    """Return *path* as a manifest has it: UTF-8, and bytes that are none are escaped."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _ticked(files: List[Seen]) -> List[Version]:
    """Return the versions of *files* now, whose next write will make others of them."""
    versions = [_version(one.path) for one in files]
    newest = max((version[1] for version in versions), default=0)
    if not 0 <= time.time() - newest / 1e9 < CLOCK_TICK_S:
        return versions
    time.sleep(CLOCK_TICK_S)
    return [_version(one.path) for one in files]


def _version(path: str) -> Version:
    """Return what a file that is gone never has."""
    try:
        return _version_of(os.stat(path))
    except OSError:
        return (-1, 0, None)


def _version_of(status: os.stat_result) -> Version:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
