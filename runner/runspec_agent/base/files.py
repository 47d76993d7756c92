"""Writing and reading small records that other nodes look at: whole or not at all."""

import errno
import itertools
import json
import os
from typing import Any, Callable, Dict, Optional

Record = Dict[str, Any]

_counter = itertools.count()


def write(path: str, content: bytes, mode: int = 0o600, durable: bool = False) -> None:
    """Put *content* at *path* in one moment; *durable*: on the disk, for what outlives the job.

    A new name in the directory also refreshes what an NFS client believes the directory to hold,
    so a node that writes its heartbeat this way sees the others' new files at once, not after the
    attribute cache's up to 60 s (nfs(5), acdirmax).
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
    """Return None when there is no such file."""
    content = read(path)
    if content is None:
        return None
    record = json.loads(content.decode("ascii"))
    assert isinstance(record, dict), "BUG: {} is not a record".format(path)
    return record


def read(path: str) -> Optional[bytes]:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def local(text: str) -> str:
    """Return *text*, which is UTF-8 on other machines, as this one names files and variables.

    They differ for Python 3.6 in an image without a locale, where names are ASCII and bytes beyond are escaped.
    """
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def text(name: str) -> str:
    """Return what *name* of a file is elsewhere. Raise UnicodeError when it is no UTF-8."""
    return os.fsencode(name).decode("utf-8")


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def fresh_folder(prefix: str) -> str:
    """Make a folder that is this user's alone, where programs put what is for now, and return its path.

    The places are those of `tempfile`, which reads a tenth of the standard library first; before them comes the one
    that who started us will take away, should we not come to it.
    """
    known = ("RUNSPEC_SCRATCH", "TMPDIR", "TEMP", "TMP")
    named = [os.environ[name] for name in known if os.environ.get(name)]
    refused: Optional[OSError] = None
    for base in (*named, "/tmp", "/var/tmp", "/usr/tmp", os.getcwd()):  # noqa: S108 - by a name that nobody guesses
        path = os.path.join(os.path.abspath(base), prefix + os.urandom(8).hex())
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            refused = refused or error
        else:
            return path
    raise refused or OSError(errno.ENOENT, "no folder for what is for now")


def remove_tree(path: str) -> None:
    """Remove a folder and all that is in it, as far as that goes; links lead nowhere here."""
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
