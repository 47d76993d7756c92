"""Read and write small records that other nodes read; a reader sees either the old content or all of the new."""

import errno
import itertools
import json
import os
import stat
from typing import IO, Any, Callable, Dict, Optional

Record = Dict[str, Any]

_counter = itertools.count()


def write(path: str, content: bytes, mode: int = 0o600, durable: bool = False) -> None:
    """Replace the file at *path* by *content* atomically; with *durable*, flush it to the disk.

    Creating a new name in the directory also refreshes the directory listing that an NFS client caches, so a node
    that writes its heartbeat this way sees new files of other nodes at once, not only after the attribute cache
    expires after up to 60 s (nfs(5), acdirmax).
    """
    part = "{}.{}.{}.part".format(path, os.getpid(), next(_counter))
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.rename(part, path)
    except OSError:
        remove(part)
        raise


def write_record(path: str, record: Record, durable: bool = False) -> None:
    write(path, json.dumps(record, sort_keys=True).encode("ascii"), durable=durable)


def read_record(path: str) -> Optional[Record]:
    """Return the record at *path*, or None if the file does not exist."""
    content = read(path)
    if content is None:
        return None
    record = json.loads(content.decode("ascii"))
    assert isinstance(record, dict), "BUG: {} is not a record".format(path)
    return record


def read(path: str) -> Optional[bytes]:
    try:
        with open_regular(path) as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def open_regular(path: str) -> IO[bytes]:
    """Open the file *path*. Raise OSError for a pipe or a device, which would be waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "it is not a file", path)


def local(text: str) -> str:
    """Return *text*, a UTF-8 name from another machine, as this machine writes names of files and variables.

    The two differ for Python 3.6 in an image without a locale, where names are ASCII and other bytes are escaped.
    """
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def text(name: str) -> str:
    """Return the file name *name* as other machines write it. Raise UnicodeError if it is not valid UTF-8."""
    return os.fsencode(name).decode("utf-8")


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def fresh_folder(prefix: str) -> str:
    """Make a temporary folder that only this user can read, and return its path.

    The candidates are those of `tempfile`, which is not used because it imports a tenth of the standard library. The
    first candidate is $RUNSPEC_SCRATCH, which the process that started this one removes even if this one is killed.
    """
    known = ("RUNSPEC_SCRATCH", "TMPDIR", "TEMP", "TMP")
    named = [os.environ[name] for name in known if os.environ.get(name)]
    refused: Optional[OSError] = None
    for base in (*named, "/tmp", "/var/tmp", "/usr/tmp", os.getcwd()):  # noqa: S108 - the name is random
        path = os.path.join(os.path.abspath(base), prefix + os.urandom(8).hex())
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            refused = refused or error
        else:
            return path
    raise refused or OSError(errno.ENOENT, "no folder for temporary files can be made")


def remove_tree(path: str) -> None:
    """Remove a folder and everything in it, ignoring errors; symbolic links are removed, not followed."""
    for folder, folders, names in os.walk(path, topdown=False):
        for name in names:
            _gone(os.unlink, os.path.join(folder, name))
        for name in folders:
            inner = os.path.join(folder, name)
            _gone(os.unlink if os.path.islink(inner) else os.rmdir, inner)
    _gone(os.rmdir, path)


def _gone(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:
        pass
