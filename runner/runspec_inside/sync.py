"""Saving an output folder while the job writes to it: a file at the target is whole, or it is not there.

The target holds the files under their own names, and `.runspec/`: the manifest, and parts of what is being written.
"""

import os
import signal
import stat
import sys
import time
from io import RawIOBase
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import files
from .process import Signals
from .words import Failure

OURS = ".runspec"
FORMAT = "runspec.outputs/v1"
BLOCK = 1 << 20
CLOCK_TICK_S = 0.02  # kernels stamp files by a clock that ticks every 1 to 10 ms: two writes in one tick look the same


class Entry(NamedTuple):
    size: int
    mtime_ns: int
    sha256: str


class Report(NamedTuple):
    copied: Tuple[str, ...]
    left: Tuple[str, ...]  # what could not be saved in this pass, each with its reason


class Sync:
    """Copies from *source* to *target*, pass by pass; one at a time for a target.

    What is deleted at the source stays at the target. Links are followed as long as they point to a file inside the
    source; FIFOs, sockets and devices are not read.
    """

    def __init__(self, source: str, target: str) -> None:
        """Take up where an earlier Sync to this target ended, by its manifest."""
        self.source = os.path.realpath(source)
        self.target = os.path.realpath(target)
        for inner, outer in ((self.target, self.source), (self.source, self.target)):
            if _inside(inner, outer):
                raise Failure("sync: '{}' and '{}' lie in each other".format(source, target))
        self._parts = os.path.join(self.target, OURS, "parts")
        self._manifest = os.path.join(self.target, OURS, "manifest.json")
        self.entries = self._read()

    def once(self) -> Report:
        """Copy what is new or changed since the last pass; the manifest comes last.

        A file that changes while it is read is left for the next pass.
        """
        import shutil

        shutil.rmtree(self._parts, ignore_errors=True)  # of one that was killed
        os.makedirs(self._parts)
        copied: List[str] = []
        left: List[str] = []
        for path in regular_files(self.source):
            try:
                if self._save(path):
                    copied.append(path)
            except OSError as error:
                left.append("{}: {}".format(shown(path), error.strerror or error))
        if copied or not os.path.exists(self._manifest):
            self._write()
        return Report(tuple(copied), tuple(left))

    def _save(self, path: str) -> bool:
        """Return whether there was something to do. Raise OSError when the file is not at the target now."""
        # The name that is not a link, for O_NOFOLLOW: what it names may be changed under us.
        real = os.path.realpath(os.path.join(self.source, path))
        if not _inside(real, self.source):
            return False
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb", buffering=0) as stream:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode) or self._has(path, before):
                return False
            if 0 <= time.time() - before.st_mtime < CLOCK_TICK_S:
                time.sleep(CLOCK_TICK_S)
                before = os.fstat(handle)
            part = os.path.join(self._parts, "part")
            size, digest = _copy(stream, part)
            after = os.fstat(handle)
        if size != after.st_size or version(before) != version(after):
            raise OSError("it changed while it was read")
        os.chmod(part, stat.S_IMODE(after.st_mode) & 0o777)
        os.utime(part, ns=(after.st_mtime_ns, after.st_mtime_ns))
        self._put(part, path)
        self.entries[path] = Entry(size, after.st_mtime_ns, digest)
        return True

    def _has(self, path: str, found: os.stat_result) -> bool:
        entry = self.entries.get(path)
        if entry is None or (entry.size, entry.mtime_ns) != (found.st_size, found.st_mtime_ns):
            return False
        try:
            return os.lstat(os.path.join(self.target, path)).st_size == entry.size
        except OSError:
            return False

    def _put(self, part: str, path: str) -> None:
        final = os.path.join(self.target, path)
        folder = os.path.dirname(final)
        self._clear(path)
        os.makedirs(folder, exist_ok=True)
        os.rename(part, final)
        _fsync_folder(folder)

    def _clear(self, path: str) -> None:
        """Take away what stands where *path* goes: a file where it has a folder, or a folder where it is a file.

        The source no longer has that, and the two cannot both be kept. The manifest forgets it first.
        """
        parts = path.split(os.sep)
        if parts[0] == OURS:
            raise OSError("this name is taken")
        above = [os.sep.join(parts[:count]) for count in range(1, len(parts))]
        wrong = [name for name in above if self._is_file(name)]
        if self._is_folder(path):
            wrong.append(path)
        if not wrong:
            return
        gone = [known for known in self.entries for name in wrong if _inside(known, name)]
        for known in gone:
            del self.entries[known]
        if gone:
            self._write()
        for name in wrong:
            _remove(os.path.join(self.target, name))

    def _is_folder(self, path: str) -> bool:
        full = os.path.join(self.target, path)
        return os.path.isdir(full) and not os.path.islink(full)  # nothing is written through a link

    def _is_file(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self.target, path)) and not self._is_folder(path)

    def _read(self) -> Dict[str, Entry]:
        record = files.read_record(self._manifest)
        if record is None:
            return {}
        return {e["path"]: Entry(e["size"], e["mtime_ns"], e["sha256"]) for e in record["files"]}

    def _write(self) -> None:
        listed = [dict(self.entries[path]._asdict(), path=path) for path in sorted(self.entries)]
        part = os.path.join(self._parts, "manifest")
        files.write_record(part, {"format": FORMAT, "files": listed}, durable=True)
        os.rename(part, self._manifest)
        _fsync_folder(os.path.dirname(self._manifest))


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


def _copy(stream: RawIOBase, part: str) -> Tuple[int, str]:
    import hashlib

    digest = hashlib.sha256()
    size = 0
    with open(part, "wb") as target:
        while True:
            block = stream.read(BLOCK)
            if not block:
                break
            digest.update(block)
            target.write(block)
            size += len(block)
        target.flush()
        os.fsync(target.fileno())
    return size, digest.hexdigest()


def version(found: os.stat_result) -> Tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _remove(path: str) -> None:
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
    else:
        import shutil

        shutil.rmtree(path)


def _fsync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems do not know it for folders
        pass
    finally:
        os.close(handle)


def shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def main(argv: List[str]) -> int:
    """`--once`: exit 1 when something could not be saved. `--every`: until SIGTERM, then once more, the same."""
    every_s, source, target = _parse(argv)
    sync = Sync(source, target)
    with Signals() as signals:
        while every_s is not None:
            _tell(sync.once())
            if any(number in (signal.SIGTERM, signal.SIGINT) for number in signals.wait(every_s)):
                break
        return _tell(sync.once())


def _tell(report: Report) -> int:
    for line in report.left:
        print("runspec: sync: {}".format(line), file=sys.stderr)
    return 1 if report.left else 0


def _parse(argv: List[str]) -> Tuple[Optional[float], str, str]:
    usage = Failure("usage: sync --every SECONDS|--once SOURCE TARGET")
    if len(argv) == 3 and argv[0] == "--once":
        return None, argv[1], argv[2]
    if len(argv) != 4 or argv[0] != "--every":
        raise usage
    try:
        return max(0.1, float(argv[1])), argv[2], argv[3]
    except ValueError:
        raise usage from None
