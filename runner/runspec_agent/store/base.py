"""What a job does with the store of its run, whichever that is: small records, whole files, lists.

`s3` and `blob` ask a service for it, and `folder` has a folder that all nodes share. What a service takes (`http`,
`ssl`, `xml`) is imported where there is one: each task of an array would read all of it, and do without it.
"""

import copy
import importlib
import os
from types import TracebackType
from typing import IO, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store import parallel

BLOCK = 1 << 20
DELETED_AT_ONCE = 8
# By the scheme of RUNSPEC_STORE; an address of Azure Blob is one of the web.
KINDS = {"s3": ("s3", "S3Bucket"), "file": ("folder", "FolderBucket")}
ELSE = ("blob", "BlobBucket")

Opened = Callable[[], IO[bytes]]


class Object(NamedTuple):
    key: str  # without the prefix of the store
    size: int
    etag: str


class Window:
    """So many bytes of a file from *start* on, to be sent; a file that has become shorter is a Failure."""

    def __init__(self, opened: Opened, start: int, size: int) -> None:
        self._stream, self._left = opened(), size
        self._stream.seek(start)

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        block = self._stream.read(wanted)
        if len(block) < wanted:
            raise Failure("it changed while it was read")
        self._left -= len(block)
        return block

    def __enter__(self) -> "Window":  # noqa: PYI034 - typing.Self needs a newer Python
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._stream.close()


class Stream:
    """Gives what lies at a key, and is closed at the end of its `with`."""

    size: int  # of all, in bytes

    def read(self, size: int = BLOCK) -> bytes:
        """Return what comes next, *size* bytes at most, and nothing at the end alone.

        Raises Failure where no more is to be had.
        """
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> "Stream":  # noqa: PYI034 - typing.Self needs a newer Python
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class Bucket:
    """Keys are paths with "/" between their parts. Every method raises Failure when the store refuses."""

    def get(self, key: str) -> Optional[bytes]:
        """Return None when there is nothing."""
        raise NotImplementedError

    def put(self, key: str, content: bytes) -> None:
        raise NotImplementedError

    def claim(self, key: str, content: bytes) -> bytes:
        """Put *content* unless there is something already; return what is there."""
        raise NotImplementedError

    def fetch(self, key: str) -> Optional[Tuple[bytes, str]]:
        """Return what is there and its version, for `swap`; None when there is nothing."""
        raise NotImplementedError

    def swap(self, key: str, content: bytes, version: Optional[str]) -> Optional[str]:
        """Put *content* if what is there has still that *version* (None: if nothing is there); return the new one.

        None: somebody else was first. Then *content* may have been there in between, when a reply was lost and the next
        writer was fast. No two contents that are ever put there may be equal: a version is a hash of it on S3.
        """
        raise NotImplementedError

    def apart(self) -> "Bucket":
        """Return the same store for somebody else, who may hasten it."""
        return copy.copy(self)

    def hasten(self, seconds: float) -> None:
        """Ask once, and wait no longer than that for an answer, from now on: for who asks again anyway."""
        raise NotImplementedError

    def opened(self, key: str) -> Stream:
        """Return a stream of what is there."""
        raise NotImplementedError

    def get_file(self, key: str, path: str) -> None:
        with self.opened(key) as body:
            _write(body, path)

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        """Put *size* bytes whose SHA-256 is *digest*; others are refused, so a changing file is an error."""
        raise NotImplementedError

    def copy(self, source: str, target: str, size: int) -> None:
        """Have the store itself put the *size* bytes at *source* at *target*, in place of what is there.

        Nobody may change *source* meanwhile. At *target* is the whole object in the end, or what was there before.
        """
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Delete the object at *key*, if there is one."""
        raise NotImplementedError

    def delete_all(self, keys: Sequence[str]) -> None:
        """Delete all objects of *keys* that can be deleted; raise one Failure at the end if some could not be."""
        failed: List[Failure] = []

        def delete(key: str) -> None:
            try:
                self.delete(key)
            except Failure as error:
                failed.append(error)

        parallel.each(delete, keys, DELETED_AT_ONCE)
        if failed:
            text = "{} of {} objects could not be deleted: {}"
            raise Failure(text.format(len(failed), len(keys), failed[0]), failed[0].code)

    def sweep(self, prefix: str) -> None:
        """Remove what those have left at *prefix*, which ends with a slash, who were killed while they put something.

        A service keeps it to itself, and `runspec gc` takes it away.
        """

    def listing(self, prefix: str) -> Iterator[Object]:
        """Yield all under *prefix*, in the order of keys."""
        raise NotImplementedError


def connect() -> Bucket:
    """Return the store that `RUNSPEC_STORE` names, by its scheme."""
    module, kind = KINDS.get(os.environ["RUNSPEC_STORE"].partition("://")[0], ELSE)
    found = getattr(importlib.import_module("{}.{}".format(__package__, module)), kind)
    bucket: Bucket = found()
    return bucket


def _write(body: Stream, path: str) -> None:
    """A disk that is full is no fault of the store, which is not asked again."""
    try:
        with open(path, "wb") as target:
            while True:
                block = body.read()
                if not block:
                    return
                target.write(block)
    except OSError as error:
        raise Failure("{}: {}".format(path, error.strerror or error), USAGE) from error


def file_digest(path: str) -> Tuple[int, str]:
    """Return the size and SHA-256 of a file."""
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            block = stream.read(BLOCK)
            if not block:
                return os.fstat(stream.fileno()).st_size, digest.hexdigest()
            digest.update(block)
