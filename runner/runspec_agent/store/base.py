"""The operations of a job on the store of its run: small records, whole files, lists.

`s3` and `blob` use a service, and `folder` uses a folder that all nodes share; other distributions bring stores of
their own: `extensions`. The modules for services (`http`, `ssl`, `xml`) are imported only when needed, because
each task of an array would compile them.
"""

import copy
import os
from types import TracebackType
from typing import IO, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

from runspec_agent import extensions
from runspec_agent.base.failure import NoName
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store import parallel

BLOCK = 1 << 20
DELETED_AT_ONCE = 8

Opened = Callable[[], IO[bytes]]


class Object(NamedTuple):
    key: str  # without the prefix of the store
    size: int
    etag: str


class Window:
    """A part of a file to upload: *size* bytes from *start*. Reading raises Failure if the file has become shorter."""

    def __init__(self, opened: Opened, start: int, size: int) -> None:
        self._stream, self._left = opened(), size
        self._stream.seek(start)

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        block = self._stream.read(wanted)
        if len(block) < wanted:
            raise Failure("the file changed while it was read")
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
    """A reader of an object, to be closed by `with`."""

    size: int  # of the whole object, in bytes

    def read(self, size: int = BLOCK) -> bytes:
        """Return the next bytes, *size* at most; b"" only at the end.

        Raise Failure if the rest cannot be read.
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
    """A store. Keys are paths with "/" between their parts. Every method raises Failure if the store refuses.

    It is made once in each process, without arguments, from the variables of the job. The methods of one store are
    called by several threads at once.
    """

    private: Tuple[str, ...] = ()  # variables with credentials, which the program does not get

    def get(self, key: str) -> Optional[bytes]:
        """Return the content at *key*, or None."""
        raise NotImplementedError

    def put(self, key: str, content: bytes) -> None:
        raise NotImplementedError

    def claim(self, key: str, content: bytes) -> bytes:
        """Write *content* unless *key* exists; return the content that is there then."""
        raise NotImplementedError

    def fetch(self, key: str) -> Optional[Tuple[bytes, str]]:
        """Return the content at *key* and its version, for `swap`; None if it does not exist."""
        raise NotImplementedError

    def swap(self, key: str, content: bytes, version: Optional[str]) -> Optional[str]:
        """Write *content* if the object still has *version* (None: if it does not exist); return the new version.

        Return None if the object has another version. *content* may still have been written and replaced, if a reply
        was lost and another writer was fast. No two contents that are written to one key may be equal: on S3, the
        version is a hash of the content.
        """
        raise NotImplementedError

    def apart(self) -> "Bucket":
        """Return the same store for another thread, which may call `hasten` on it."""
        return copy.copy(self)

    def hasten(self, seconds: float) -> None:
        """From now on, send each request only once and with this timeout, for callers that repeat it anyway."""
        raise NotImplementedError

    def opened(self, key: str) -> Stream:
        """Return a reader of the object."""
        raise NotImplementedError

    def get_file(self, key: str, path: str) -> None:
        with self.opened(key) as body:
            _write(body, path)

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        """Upload *size* bytes. Raise Failure if their SHA-256 is not *digest*, because the file is changing."""
        raise NotImplementedError

    def copy(self, source: str, target: str, size: int) -> None:
        """Let the store copy the *size* bytes of *source* to *target*, replacing it.

        *source* must not change meanwhile. In the end, *target* is the whole new object or what it was before.
        """
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Delete the object at *key*, if there is one."""
        raise NotImplementedError

    def delete_all(self, keys: Sequence[str]) -> None:
        """Delete all *keys* that can be deleted; raise one Failure at the end if some could not.

        That is a NoName if the store takes none of their names.
        """
        failed: List[Failure] = []

        def delete(key: str) -> None:
            try:
                self.delete(key)
            except Failure as error:
                failed.append(error)

        parallel.each(delete, keys, DELETED_AT_ONCE)
        if failed:
            failed.sort(key=lambda error: isinstance(error, NoName))
            kind = NoName if isinstance(failed[0], NoName) else Failure
            text = "{} of {} objects could not be deleted: {}"
            raise kind(text.format(len(failed), len(keys), failed[0]), failed[0].code)

    def sweep(self, prefix: str) -> None:
        """Remove incomplete files at *prefix*, which ends with a slash, that were left by killed processes.

        A service hides incomplete uploads, and `runspec gc` deletes them.
        """

    def listing(self, prefix: str) -> Iterator[Object]:
        """Yield all objects under *prefix*, in the order of keys."""
        raise NotImplementedError


def connect() -> Bucket:
    """Return the store that `RUNSPEC_STORE` names, by its scheme."""
    scheme = os.environ["RUNSPEC_STORE"].partition("://")[0]
    bucket: Bucket = extensions.load(extensions.STORES, scheme, "store for the scheme")()
    return bucket


def _write(body: Stream, path: str) -> None:
    """Write *body* to *path*. A full disk is not an error of the store, so the request is not repeated."""
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
