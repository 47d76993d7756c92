"""Read an output folder as it was at one moment, while a program may write to it.

A file counts as read as long as its size and times do not change. Files that a later look at the whole folder finds
unchanged all existed at one moment, the beginning of that look.
"""

import errno
import io
import os
import time
from typing import IO, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from runspec_agent.base import files
from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.store import parallel
from runspec_agent.store.base import Opened, file_digest
from runspec_agent.store.manifest import EMPTY, Entry, Listed, fit_time
from runspec_agent.transfer.folder_walk import (
    EVERYTHING,
    GONE,
    Hidden,
    Seen,
    Version,
    look,
    shown,
    version_of,
)

CLOCK_TICK_S = 0.02  # file times come from a clock that ticks every 1 to 10 ms: two writes in one tick look the same
ROUNDS = 10  # passes that read files that have changed meanwhile
SMALL_BYTES = 4 << 20  # smaller files are read into memory
TOGETHER_BYTES = 64 << 20  # of small files in memory
COPIED_BYTES = 1 << 30  # of changing files that are copied before they are saved

Send = Callable[[Opened, int, str], str]


class Held(NamedTuple):
    """The content of a file at one moment."""

    opened: Opened
    size: int
    digest: str


class Restless(Failure):
    """The error that files change faster than they can be read."""


class Unsettled(Failure):
    """The error that a file was written after the folder had settled."""


class Snapshot:
    """The content of *folder*. *send* uploads the content of a file and returns the name of its object.

    *names* are other paths of the folder, as programs know it.
    """

    def __init__(self, folder: str, send: Send, names: Iterable[str] = ()) -> None:
        self.folder, self._send = os.path.realpath(folder), send
        self._names = [os.path.abspath(folder), *names]
        self.wanted = EVERYTHING  # the files that are read
        self.shape = EMPTY  # what was beside the files that `taken` returned
        self._read: Dict[str, Tuple[Version, Entry]] = {}
        self._wrong: Dict[str, Tuple[Version, str]] = {}  # files that cannot be read, and why
        self._hidden: Hidden = {}
        self._no_room = False  # whether the disk is too full for copies
        self._quiet: Optional[Dict[str, Version]] = None  # the files when the folder had settled

    def know(self, files: Listed) -> None:
        """Treat *files* as read, as long as they look the same: `restore` has set their times."""
        self._read = {
            n: ((e.size, e.mtime_ns, None), e)
            for n, e in files.items()
            if e.object
            and not e.link  # a link may lead to another file of that size and time by now
        }

    def wrong(self) -> List[str]:
        """Return a line for each file that could not be read."""
        reasons = {**self._hidden, **{name: why for name, (_, why) in self._wrong.items()}}
        return sorted(
            "{}: {}".format(shown(n) or self.folder, why) for n, why in reasons.items() if why
        )

    def settle(self, wait: Callable[[float], bool], settled_s: float, until: float) -> None:
        """Wait with *wait* until nothing was written for *settled_s*, or *wait* returns True.

        The next `taken` then returns the files of that time. At *until*, a time of the monotonic clock, the wait ends
        without that: a program may write all the time.
        """
        self._quiet = None
        while time.monotonic() < until:
            seen = look(self.folder, self._names, self.wanted).files
            newest = max((seen_file.version[1] for seen_file in seen.values()), default=0)
            left_s = settled_s - (time.time() - newest / 1e9)
            if not 0 < left_s <= settled_s:
                self._quiet = {name: seen_file.version for name, seen_file in seen.items()}
                return
            if wait(left_s):
                return

    def taken(self, before: Listed) -> Listed:
        """Read new and changed files; return the files of the folder at one moment.

        Unreadable files are left out. Raise Failure if the store refuses, or if an unreadable file is in the save
        *before*, which then stays valid; Restless if there was no such moment; Unsettled if a file changed since the
        folder had settled.
        """
        quiet, self._quiet = self._quiet, None
        burst: Set[str] = set()
        changed: List[str] = []
        for count in range(ROUNDS):
            seen, self._hidden, shape = look(self.folder, self._names, self.wanted)
            self._check_hidden(before, seen)
            changed = [
                name for name, seen_file in seen.items() if not self._has(name, seen_file.version)
            ]
            if self._gone(seen) or not burst.issuperset(changed):
                burst = self._renewed(seen, changed, count > 0)
            else:
                self._check_wrong(before)
                self._check_quiet(quiet)
                self.shape = shape
                return {
                    name: entry._replace(mode=seen[name].mode, link=seen[name].link)
                    for name, (_, entry) in self._read.items()
                }
        text = "files change faster than they can be saved, for example {}"
        raise Restless(
            text.format(shown(changed[0]) if changed else "files that are being deleted")
        )

    def _check_hidden(self, before: Listed, seen: Dict[str, Seen]) -> None:
        """Raise Failure for saved files that cannot be read now: a failing disk must not look like deleted files."""
        for path, why in self._hidden.items():
            if any(n not in seen and (n + "/").startswith(path + "/" * bool(path)) for n in before):
                raise Failure(
                    "{}: {}".format(
                        shown(path) or self.folder, why or "it does not exist any more"
                    ),
                    LOST,
                )

    def _check_wrong(self, before: Listed) -> None:
        for name, (_, why) in self._wrong.items():
            if name in before:
                raise Failure("{}: {}".format(shown(name), why), LOST)

    def _check_quiet(self, quiet: Optional[Dict[str, Version]]) -> None:
        """Raise Unsettled if a file has changed; a truncated one keeps its old time for a moment."""
        if quiet is None:
            return
        known = {
            n: held[0] for one_kind in (self._read, self._wrong) for n, held in one_kind.items()
        }
        if {n: v[:2] for n, v in known.items()} != {n: v[:2] for n, v in quiet.items()}:
            raise Unsettled("files were written meanwhile")

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
        """Read *names* again; return those that existed together at one moment after all others were read.

        *again*: they changed while they were read the last time, so large files are copied first.
        """
        for name in names:
            self._read.pop(name, None)
            self._wrong.pop(name, None)
        held = fitting(seen, names, COPIED_BYTES if again and not self._no_room else 0)
        parallel.each(
            lambda name: self._stream(name, seen[name]), [n for n in names if n not in held]
        )
        folder = ""
        try:
            if any(held_file.version[0] > SMALL_BYTES for held_file in held.values()):
                folder = files.fresh_folder("runspec-save-")
            return self._together(held, folder)
        except OSError:
            self._no_room = True
            return set()
        finally:
            if folder:
                files.remove_tree(folder)

    def _stream(self, name: str, file: Seen) -> None:
        def opened() -> IO[bytes]:
            return open(file.path, "rb")

        def read() -> None:
            before = settled([file])[0]
            size, digest = file_digest(file.path)
            if size != before[0] or _version(file.path) != before:
                return
            try:
                made = self._send(opened, size, digest)
            except Failure:
                if _version(file.path) == before:
                    raise
                return
            if _version(file.path) == before:
                self._read[name] = (before, Entry(size, fit_time(before[1]), digest, made))

        self._tried(name, file, read)

    def _together(self, held: Dict[str, Seen], folder: str) -> Set[str]:
        """Read files into memory or copies one after the other, and save those that did not change meanwhile."""
        before = dict(zip(held, settled(list(held.values()))))
        contents: Dict[str, Held] = {}
        for name, seen_file in held.items():

            def read(name: str = name, file: Seen = seen_file) -> None:
                copy = os.path.join(folder, str(len(contents)))
                contents[name] = _held(file, copy if file.version[0] > SMALL_BYTES else "")

            self._tried(name, seen_file, read)
        same = [n for n, held_ in contents.items() if _still(held[n].path, before[n], held_.size)]

        def save(name: str) -> None:
            content, version = contents[name], before[name]
            made = self._send(content.opened, content.size, content.digest)
            entry = Entry(content.size, fit_time(version[1]), content.digest, made)
            self._read[name] = (version, entry)

        parallel.each(save, same)
        return set(same) if len(same) == len(contents) else set()

    def _tried(self, name: str, file: Seen, read: Callable[[], None]) -> None:
        """Let *read* read a file. A deleted file is left out; without room for a copy, the file is streamed."""
        try:
            read()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                self._no_room = True
            elif error.errno not in GONE:
                self._wrong[name] = (file.version, error.strerror or str(error))


def _held(file: Seen, copy: str) -> Held:
    """Return the content of a file, in memory or, if *copy* is set, in a copy of the file."""
    if copy:
        import shutil  # imported only if there are files to copy

        shutil.copyfile(file.path, copy)
        return Held(lambda: open(copy, "rb"), *file_digest(copy))
    import hashlib

    with open(file.path, "rb") as stream:
        content = stream.read()
    return Held(lambda: io.BytesIO(content), len(content), hashlib.sha256(content).hexdigest())


def _still(path: str, version: Version, size: int) -> bool:
    """Return whether a file has not changed, and *size* is its size."""
    return _version(path) == version and size == version[0]


def fitting(seen: Dict[str, Seen], names: List[str], copied: int) -> Dict[str, Seen]:
    """Choose the files to read at once: small ones that fit into memory, and *copied* bytes of others."""
    chosen: Dict[str, Seen] = {}
    in_memory = TOGETHER_BYTES
    for name in names:
        size = seen[name].version[0]
        if size <= min(SMALL_BYTES, in_memory):
            in_memory -= size
        elif SMALL_BYTES < size <= copied:
            copied -= size
        else:
            continue
        chosen[name] = seen[name]
    return chosen


def settled(files: List[Seen]) -> List[Version]:
    """Return the versions of *files* after a clock tick, so that any later write changes them."""
    versions = [_version(file.path) for file in files]
    newest = max((version[1] for version in versions), default=0)
    if not 0 <= time.time() - newest / 1e9 < CLOCK_TICK_S:
        return versions
    time.sleep(CLOCK_TICK_S)
    return [_version(file.path) for file in files]


def _version(path: str) -> Version:
    """Return the version of a file; a deleted file has one that no existing file has."""
    try:
        return version_of(os.stat(path))
    except OSError:
        return (-1, 0, None)
