"""The store of a run in a folder of a file system that all nodes share: `RUNSPEC_STORE` is file:///FOLDER.

A key is the path of a file below it. The folder may lie on NFS, where a reply can be lost and a client believes for
up to a minute what it has once seen: nfs(5), "Data and metadata coherence".
"""

import errno
import fcntl
import os
import re
import stat
import time
from contextlib import contextmanager
from typing import IO, Any, Callable, Iterator, List, Mapping, Optional, Tuple, TypeVar

from runspec_agent.base import files
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store.base import BLOCK, Bucket, Object, Opened, Stream, Window
from runspec_agent.store.manifest import MANIFEST

# What is being written, beside the file that it is to become: names of their own, for the key may be as long as a name
# can be. What NFS calls a file that is removed while somebody has it open is in no list either.
PART = re.compile(r"\.rs-[0-9a-f]{16}\.(?:part|lock)|\.nfs[0-9a-f]{8,}")
STALE = 5  # tries of what somebody else replaces at the same moment
LOCK_S = 10.0  # for those who swap at the same moment; each takes as long as a small file
NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)

Found = TypeVar("Found")


class FolderBucket(Bucket):
    """Files are 0600 and folders 0700; every file is whole or not there."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        path = env["RUNSPEC_STORE"][len("file://") :]
        if not os.path.isabs(path):
            raise Failure("RUNSPEC_STORE: 'file://{}' is not the path of a folder".format(path))
        self.root = path.rstrip("/") or "/"
        self._durable, self._lock_s = True, LOCK_S

    def get(self, key: str) -> Optional[bytes]:
        path = self._path(key)

        def read() -> Optional[bytes]:
            found = files.read(path)
            if found is None and _look_again(os.path.dirname(path)):
                found = files.read(path)
            return found

        try:
            return _not_stale(read)
        except (NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise _refused(key, error) from error

    def put(self, key: str, content: bytes) -> None:
        def write(target: IO[bytes]) -> None:
            target.write(content)

        self._placed(key, write, os.rename)

    def claim(self, key: str, content: bytes) -> bytes:
        """Look first, as an NFS client does that must know: most that claim find who has it, and need no disk."""
        _look_again(os.path.dirname(self._path(key)))
        found = self.get(key)
        if found is not None:
            return found

        def write(target: IO[bytes]) -> None:
            target.write(content)

        if self._placed(key, write, _linked):
            return content
        found = self.get(key)
        if found is None:
            raise Failure("the claim {} has been taken away".format(key), LOST)
        return found

    def fetch(self, key: str) -> Optional[Tuple[bytes, str]]:
        _look_again(os.path.dirname(self._path(key)))
        found = self.get(key)
        return None if found is None else (found, _version(found))

    def swap(self, key: str, content: bytes, version: Optional[str]) -> Optional[str]:
        """Compare and put under a lock of the file system, which goes with its holder: flock(2), "NFS details".

        Where there are no locks, a manifest is compared and put all the same: one attempt comes after another.
        """
        with self._locked(key, needed=not key.endswith(MANIFEST)):
            found = self.fetch(key)
            if (None if found is None else found[1]) != version:
                return None
            self.put(key, content)
            return _version(content)

    def hasten(self, seconds: float) -> None:
        """Wait for no disk, either: one that is busy with what a program saves would make a node seem gone.

        A file system tries by itself. On NFS, what is closed is at the server: nfs(5), "Close-to-open cache
        consistency".
        """
        self._durable, self._lock_s = False, seconds

    @contextmanager
    def _locked(self, key: str, needed: bool) -> Iterator[None]:
        folder, name = os.path.split(self._path(key))
        import hashlib  # as in `put_file`

        own = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
        try:
            self._make(folder, clear=False)
            handle = os.open(
                os.path.join(folder, ".rs-{}.lock".format(own)), os.O_RDWR | os.O_CREAT, 0o600
            )
        except OSError as error:
            raise _refused(key, error) from error
        try:
            _lock(handle, key, self._lock_s, needed)
            yield
        finally:
            os.close(handle)

    def opened(self, key: str) -> Stream:
        try:
            return _Held(key, _not_stale(lambda: _opened(self._path(key))))
        except OSError as error:
            raise _refused(key, error) from error

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        import hashlib

        def write(target: IO[bytes]) -> None:
            found = hashlib.sha256()
            with Window(opened, 0, size) as stream:
                for start in range(0, size, BLOCK):
                    block = stream.read(min(BLOCK, size - start))
                    found.update(block)
                    target.write(block)
            if found.hexdigest() != digest:
                raise Failure("it changed while it was read", USAGE)

        self._placed(key, write, _in_place)

    def copy(self, source: str, target: str, size: int) -> None:
        """Give the file, which nobody writes again, a second name; copy its bytes where there are no links."""
        path = self._path(source)

        def link(part: str) -> None:
            try:
                with _not_stale(lambda: _opened(path)):
                    os.link(path, part)
            except FileExistsError:  # it is ours, of a try whose reply was lost
                pass
            except OSError as error:
                if error.errno not in (*NO_LINKS, errno.EMLINK):
                    raise
                self._write(part, copy)

        def copy(stream: IO[bytes]) -> None:
            import shutil

            with _not_stale(lambda: _opened(path)) as found:
                shutil.copyfileobj(found, stream, BLOCK)

        self._made(target, link, _in_place, "a copy of {} to {}".format(source, target))

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            _not_stale(lambda: os.unlink(path))
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise _refused(key, error) from error

    def sweep(self, prefix: str) -> None:
        """One that somebody has open, or that is gone by now, is left to the next."""
        folder = self._path(prefix.rstrip("/"))
        try:
            parts = [name for name in os.listdir(folder) if name.startswith(".rs-")]
        except OSError:
            return
        for name in parts:
            if PART.fullmatch(name) and name.endswith(".part"):
                try:
                    os.unlink(os.path.join(folder, name))
                except OSError:
                    continue

    def listing(self, prefix: str) -> Iterator[Object]:
        folder, slash, begin = prefix.rpartition("/")
        base = self._path(folder) if slash else self.root
        at = folder + slash
        for name, found in self._below(base, begin):
            key = at + os.fsencode(name).decode("utf-8", "surrogateescape")
            version = "{:x}-{:x}-{:x}".format(found.st_mtime_ns, found.st_size, found.st_ino)
            yield Object(key, found.st_size, version)

    def _below(self, folder: str, begin: str = "") -> Iterator[Tuple[str, os.stat_result]]:
        """Yield the files below *folder*, those alone that *begin* so, in the order of their bytes."""
        for name, is_folder in self._entries(folder, files.local(begin)):
            path = os.path.join(folder, name)
            if is_folder:
                for inner, found in self._below(path):
                    yield name + "/" + inner, found
                continue
            try:
                found = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):  # by now
                continue
            except OSError as error:
                if error.errno == errno.ESTALE:
                    continue
                raise _refused(path, error) from error
            if stat.S_ISREG(found.st_mode):
                yield name, found

    def _entries(self, folder: str, begin: str) -> List[Tuple[str, bool]]:
        """Return names in *folder*, and which are folders: these are sorted as the keys below them."""

        def scan() -> List[Tuple[str, bool]]:
            with os.scandir(folder) as entries:
                return [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]

        try:
            found = _not_stale(scan)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _refused(folder, error) from error
        kept = [e for e in found if e[0].startswith(begin) and not PART.fullmatch(e[0])]
        return sorted(kept, key=lambda e: os.fsencode(e[0]) + b"/" * e[1])

    def _path(self, key: str) -> str:
        parts = key.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in key:
            raise Failure("'{}' cannot be a key".format(key), USAGE)
        if PART.fullmatch(parts[-1]):
            raise Failure("the name {} is taken".format(parts[-1]), USAGE)
        return os.path.join(self.root, *(files.local(part) for part in parts))

    def _placed(
        self, key: str, write: Callable[[IO[bytes]], None], place: Callable[[str, str], Found]
    ) -> Found:
        """Have *write* fill a file, and then *place* put it at the key in one moment; return what that does."""
        return self._made(key, lambda part: self._write(part, write), place, key)

    def _write(self, part: str, write: Callable[[IO[bytes]], None]) -> None:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as target:
            write(target)
            target.flush()
            if self._durable:
                os.fsync(target.fileno())

    def _made(
        self, key: str, make: Callable[[str], None], place: Callable[[str, str], Found], what: str
    ) -> Found:
        """Have *make* make a file under a name of its own, and *place* put it at the key; *what* is for errors."""
        path = self._path(key)
        folder = os.path.dirname(path)
        part = os.path.join(folder, ".rs-{}.part".format(os.urandom(8).hex()))
        try:
            self._make(folder, place is _in_place)
            try:
                make(part)
                return place(part, path)
            finally:
                files.remove(part)
        except OSError as error:
            raise _refused(what, error) from error

    def _make(self, folder: str, clear: bool) -> None:
        """Make *folder*; with *clear* a file at its place goes, which is a folder at its source by now."""
        if os.path.isdir(folder):
            return
        if clear and folder != self.root and os.path.lexists(folder):
            try:
                os.unlink(folder)
            except OSError:  # who saves another file of it was faster
                if os.path.lexists(folder) and not os.path.isdir(folder):
                    raise
        if len(folder) > len(self.root):
            self._make(os.path.dirname(folder), clear)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise


class _Held(Stream):
    """A file that is open: it stays the same one when another takes its place."""

    def __init__(self, key: str, stream: IO[bytes]) -> None:
        self._key, self._stream = key, stream
        self.size = os.fstat(stream.fileno()).st_size

    def read(self, size: int = BLOCK) -> bytes:
        try:
            return self._stream.read(size)
        except OSError as error:
            raise _refused(self._key, error) from error

    def close(self) -> None:
        self._stream.close()


def _version(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _lock(handle: int, key: str, patience_s: float, needed: bool) -> None:
    """Raise Failure where nobody can lock, if that is *needed*, or somebody else does so all the time."""
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                if not needed:
                    return
                text = "the file system of RUNSPEC_STORE has no locks, which nodes that come and go need: {}"
                raise Failure(text.format(error.strerror), USAGE) from error
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise _refused(key, error) from error
        if time.monotonic() > until:
            raise Failure("somebody holds the lock of {}".format(key), LOST)
        time.sleep(0.005)


def _linked(part: str, path: str) -> bool:
    """Give *part* the name *path*, if nobody has it; return whether it is ours.

    A reply may be lost, and the link be found there by the second try: the count of names says whose it is.
    """
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno in NO_LINKS:
            text = "the file system of RUNSPEC_STORE makes no hard links, which a claim needs: {}"
            raise Failure(text.format(error.strerror), USAGE) from error
        with open(part, "rb") as stream:  # opened anew, for what an NFS client remembers
            if os.fstat(stream.fileno()).st_nlink == 2:
                return True
        if error.errno != errno.EEXIST:
            raise
        return False
    return True


def _in_place(part: str, path: str) -> None:
    """Rename; a folder at *path* goes, which is a file at its source by now."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path)
    os.rename(part, path)


def _opened(path: str) -> IO[bytes]:
    if not os.path.exists(path):
        _look_again(os.path.dirname(path))
    return open(path, "rb")


def _look_again(folder: str) -> bool:
    """Have an NFS client ask what is in *folder*, which it does when the folder is opened; say whether it is there."""
    try:
        os.close(os.open(folder, os.O_RDONLY))
    except OSError:
        return False
    return True


def _not_stale(do: Callable[[], Found]) -> Found:
    """Do it anew where the file was replaced by another machine in the middle of it."""
    for _ in range(STALE):
        try:
            return do()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    return do()


def _refused(key: str, error: OSError) -> Failure:
    why: Any = error.strerror or error
    return Failure("the store refuses {}: {}".format(key, why), LOST)
