"""The store of a run in a folder of a file system that all nodes share: `RUNSPEC_STORE` is file:///FOLDER.

A key is the path of a file below it. The folder may lie on NFS, where a reply can be lost, and where a client may use
cached data for up to a minute: nfs(5), "Data and metadata coherence".
"""

import errno
import os
import re
import stat
import time
from contextlib import contextmanager
from typing import IO, Any, Callable, Iterator, List, Mapping, Optional, Tuple, TypeVar

from runspec_agent.base import file_lock, files
from runspec_agent.base.failure import LOST, USAGE, Failure, NoName, NoSpace, is_no_space
from runspec_agent.store.base import BLOCK, Bucket, Object, Opened, Stream, Window
from runspec_agent.store.manifest import MANIFEST

# Temporary files beside the file to be written have random names, since a key may be as long as a file name can be.
# Lists leave them out, and also the files that NFS renames when an open file is removed.
PART = re.compile(r"\.rs-[0-9a-f]{16}\.(?:part|lock)|\.nfs[0-9a-f]{8,}")
STALE = 5  # attempts to read a file that another process is replacing
LOCK_S = 10.0  # for other swaps at the same moment; each takes as long as a small file
NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)

Found = TypeVar("Found")


class FolderBucket(Bucket):
    """A store of files with mode 0600 in folders with mode 0700; every file is written atomically."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        path = env["RUNSPEC_STORE"][len("file://") :]
        if not os.path.isabs(path):
            raise Failure("RUNSPEC_STORE: 'file://{}' is not the path of a folder".format(path))
        self.root = path.rstrip("/") or "/"
        self._durable, self._lock_s = True, LOCK_S

    def get(self, key: str) -> Optional[bytes]:
        path = self.path_of(key)

        def read() -> Optional[bytes]:
            content = files.read(path)
            if content is None and _look_again(os.path.dirname(path)):
                content = files.read(path)
            return content

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

    def put_stream(self, key: str, write: Callable[[IO[bytes]], None]) -> None:
        """Let *write* write the object; if that raises an error, the object is as it was."""
        self._placed(key, write, _in_place)

    def claim(self, key: str, content: bytes) -> bytes:
        """Read before writing, as an NFS client must ask the server anyway: most callers find an existing claim."""
        _look_again(os.path.dirname(self.path_of(key)))
        holder = self.get(key)
        if holder is not None:
            return holder

        def write(target: IO[bytes]) -> None:
            target.write(content)

        if self._placed(key, write, _linked):
            return content
        holder = self.get(key)
        if holder is None:
            raise Failure("the claim {} has been deleted".format(key), LOST)
        return holder

    def fetch(self, key: str) -> Optional[Tuple[bytes, str]]:
        _look_again(os.path.dirname(self.path_of(key)))
        content = self.get(key)
        return None if content is None else (content, _version(content))

    def swap(self, key: str, content: bytes, version: Optional[str]) -> Optional[str]:
        """Compare and write under a lock of the file system, which ends with its holder: flock(2), "NFS details".

        Without locks, a manifest is still compared and written: attempts run one after the other.
        """
        with self._locked(key, needed=not key.endswith(MANIFEST)):
            current = self.fetch(key)
            if (None if current is None else current[1]) != version:
                return None
            self.put(key, content)
            return _version(content)

    def hasten(self, seconds: float) -> None:
        """Do not wait for disks: a disk that is busy with a program's files would make a node seem lost.

        The file system itself repeats requests. On NFS, a closed file is on the server: nfs(5), "Close-to-open cache
        consistency".
        """
        self._durable, self._lock_s = False, seconds

    @contextmanager
    def _locked(self, key: str, needed: bool) -> Iterator[None]:
        folder, name = os.path.split(self.path_of(key))
        import hashlib  # as in `put_file`

        lock_name = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
        try:
            self._make(folder, clear=False)
            handle = os.open(
                os.path.join(folder, ".rs-{}.lock".format(lock_name)), os.O_RDWR | os.O_CREAT, 0o600
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
            return _Held(key, _not_stale(lambda: _opened(self.path_of(key))))
        except OSError as error:
            raise _refused(key, error) from error

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        import hashlib

        def write(target: IO[bytes]) -> None:
            hasher = hashlib.sha256()
            with Window(opened, 0, size) as stream:
                for start in range(0, size, BLOCK):
                    block = stream.read(min(BLOCK, size - start))
                    hasher.update(block)
                    target.write(block)
            if hasher.hexdigest() != digest:
                raise Failure("the file changed while it was read", USAGE)

        self._placed(key, write, _in_place)

    def copy(self, source: str, target: str, size: int) -> None:
        """Make a hard link, since objects are never changed; copy the bytes on a file system without links."""
        path = self.path_of(source)

        def link(part: str) -> None:
            try:
                with _not_stale(lambda: _opened(path)):
                    os.link(path, part)
            except (
                FileExistsError
            ):  # it was made by this process, in an attempt whose reply was lost
                pass
            except OSError as error:
                if error.errno not in (*NO_LINKS, errno.EMLINK):
                    raise
                self._write(part, copy)

        def copy(stream: IO[bytes]) -> None:
            import shutil

            with _not_stale(lambda: _opened(path)) as opened:
                shutil.copyfileobj(opened, stream, BLOCK)

        self._made(target, link, _in_place, "a copy of {} to {}".format(source, target))

    def delete(self, key: str) -> None:
        path = self.path_of(key)
        try:
            _not_stale(lambda: os.unlink(path))
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise _refused(key, error) from error

    def sweep(self, prefix: str) -> None:
        """Remove old temporary files; errors are ignored, since a later call removes them."""
        folder = self.path_of(prefix.rstrip("/"))
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
        base = self.path_of(folder) if slash else self.root
        at = folder + slash
        for name, entry in self._below(base, begin):
            key = at + os.fsencode(name).decode("utf-8", "surrogateescape")
            version = "{:x}-{:x}-{:x}".format(entry.st_mtime_ns, entry.st_size, entry.st_ino)
            yield Object(key, entry.st_size, version)

    def _below(self, folder: str, begin: str = "") -> Iterator[Tuple[str, os.stat_result]]:
        """Yield the files below *folder* whose paths begin with *begin*, in the order of their bytes."""
        for name, is_folder in self._entries(folder, files.local(begin)):
            path = os.path.join(folder, name)
            if is_folder:
                for inner, entry in self._below(path):
                    yield name + "/" + inner, entry
                continue
            try:
                entry = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):  # the file has been deleted meanwhile
                continue
            except OSError as error:
                if error.errno == errno.ESTALE:
                    continue
                raise _refused(path, error) from error
            if stat.S_ISREG(entry.st_mode):
                yield name, entry

    def _entries(self, folder: str, begin: str) -> List[Tuple[str, bool]]:
        """Return the names in *folder*, and which are folders, sorted like the keys below them."""

        def scan() -> List[Tuple[str, bool]]:
            with os.scandir(folder) as entries:
                return [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]

        try:
            scanned = _not_stale(scan)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _refused(folder, error) from error
        kept = [e for e in scanned if e[0].startswith(begin) and not PART.fullmatch(e[0])]
        return sorted(kept, key=lambda e: os.fsencode(e[0]) + b"/" * e[1])

    def path_of(self, key: str) -> str:
        parts = key.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in key:
            raise NoName("'{}' cannot be a key".format(key), USAGE)
        if PART.fullmatch(parts[-1]):
            raise NoName("the name {} is reserved".format(parts[-1]), USAGE)
        return os.path.join(self.root, *(files.local(part) for part in parts))

    def _placed(
        self, key: str, write: Callable[[IO[bytes]], None], move: Callable[[str, str], Found]
    ) -> Found:
        """Let *write* fill a temporary file and *move* move it to the key atomically; return the result of *move*."""
        return self._made(key, lambda part: self._write(part, write), move, key)

    def _write(self, part: str, write: Callable[[IO[bytes]], None]) -> None:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as target:
            write(target)
            target.flush()
            if self._durable:
                os.fsync(target.fileno())

    def _made(
        self, key: str, make: Callable[[str], None], move: Callable[[str, str], Found], what: str
    ) -> Found:
        """Let *make* create a temporary file and *move* move it to the key; *what* is for error messages."""
        path = self.path_of(key)
        folder = os.path.dirname(path)
        part = os.path.join(folder, ".rs-{}.part".format(os.urandom(8).hex()))
        try:
            self._make(folder, move is _in_place)
            try:
                make(part)
                return move(part, path)
            finally:
                files.remove(part)
        except OSError as error:
            raise _refused(what, error) from error

    def _make(self, folder: str, clear: bool) -> None:
        """Make *folder*; with *clear*, remove a file at its path, where the source has a folder by now."""
        if os.path.isdir(folder):
            return
        if clear and folder != self.root and os.path.lexists(folder):
            try:
                os.unlink(folder)
            except OSError:  # another thread that saves a file in it was faster
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
    """An open file: it keeps its content when another file replaces it."""

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
    """Lock the file. Raise Failure if the file system has no locks and they are *needed*, or on timeout."""
    until = time.monotonic() + patience_s
    while True:
        try:
            if file_lock.take(handle, wait=False):
                return
        except OSError as error:
            if error.errno in file_lock.NO_LOCKS:
                if not needed:
                    return
                text = "the file system of RUNSPEC_STORE has no locks, which elastic jobs need: {}"
                raise Failure(text.format(error.strerror), USAGE) from error
            raise _refused(key, error) from error
        if time.monotonic() > until:
            raise Failure("another process holds the lock of {}".format(key), LOST)
        time.sleep(0.005)


def _linked(part: str, path: str) -> bool:
    """Link *part* to *path* if it does not exist; return whether *path* is this process's file.

    A reply may be lost, so that a second attempt finds the link: the link count shows whose it is.
    """
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno in NO_LINKS:
            text = "the file system of RUNSPEC_STORE has no hard links, which claims need: {}"
            raise Failure(text.format(error.strerror), USAGE) from error
        with open(part, "rb") as stream:  # opened again, because an NFS client caches attributes
            if os.fstat(stream.fileno()).st_nlink == 2:
                return True
        if error.errno != errno.EEXIST:
            raise
        return False
    return True


def _in_place(part: str, path: str) -> None:
    """Rename *part* to *path*; a folder at *path* is removed, where the source has a file by now."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path)
    os.rename(part, path)


def _opened(path: str) -> IO[bytes]:
    if not os.path.exists(path):
        _look_again(os.path.dirname(path))
    return files.open_regular(path)


def _look_again(folder: str) -> bool:
    """Make an NFS client refresh the list of *folder*, by opening it; return whether it exists."""
    try:
        os.close(os.open(folder, os.O_RDONLY))
    except OSError:
        return False
    return True


def _not_stale(do: Callable[[], Found]) -> Found:
    """Call *do* again if another machine replaced the file meanwhile."""
    for _ in range(STALE):
        try:
            return do()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    return do()


def _refused(key: str, error: OSError) -> Failure:
    why: Any = error.strerror or error
    text = "the store refuses {}: {}".format(key, why)
    return NoSpace(text) if is_no_space(error) else Failure(text, LOST)
