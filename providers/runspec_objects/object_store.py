"""A bucket of S3 or a container of Azure, by obstore."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import obstore

from runspec_jobs.provider import Conflict, RemoteError
from runspec_jobs.provider.saved_outputs import MANIFEST
from runspec_jobs.provider.streams.object_streams import BodyReader
from runspec_objects.errors import absent, permitted, streamed, taken
from runspec_objects.store import AT_ONCE, Entry, Store

PART_BYTES = 8 << 20
PARTS = 10_000  # of an object: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
COPY_BYTES = 5 << 30  # that one request of S3 copies
TIMEOUT_S = 600.0  # of one request, which may carry a large file

Translated = Callable[[str], AbstractContextManager[None]]
"""Raises the errors of `Client.call` for those of obstore while an action is done, and lets these pass:
FileNotFoundError and FileExistsError."""


def client_options(endpoint: str | None) -> Any:
    """Return the options of obstore for connections to *endpoint*; None is that of the service."""
    is_plain = urlsplit(endpoint or "").scheme == "http"
    return {"allow_http": is_plain, "timeout": timedelta(seconds=TIMEOUT_S)}


class Bucket(Store):
    """Objects in the store of obstore that *open_native* returns. *missing*: message and hint if it does not exist."""

    def __init__(
        self,
        open_native: Callable[[], Any],
        translated: Translated,
        missing: tuple[str, str],
        parts: int = PARTS,
    ) -> None:
        self._open_native, self._translated = open_native, translated
        self._missing, self._parts = missing, parts

    @cached_property
    def native(self) -> Any:
        with self._translated("open the store"):
            return self._open_native()

    def size(self, key: str) -> int | None:
        try:
            with self._translated(f"look for {key}"), absent():
                return int(obstore.head(self.native, key)["size"])
        except FileNotFoundError:
            return None

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        if end is not None and end <= start:
            return b""
        try:
            with self._translated(f"read {key}"), absent():
                if end is None and not start:
                    return bytes(obstore.get(self.native, key).bytes())
                if end is None:
                    end = int(obstore.head(self.native, key)["size"])
                    if end <= start:
                        return b""
                return bytes(obstore.get_range(self.native, key, start=start, end=end))
        except FileNotFoundError:
            return None

    def put(self, key: str, content: bytes) -> None:
        with self._contained(f"write {key}"):
            obstore.put(self.native, key, content, use_multipart=False)

    def put_new(self, key: str, content: bytes) -> bool:
        return self.put_if(key, content, "create")

    def put_if(self, key: str, content: bytes, mode: Any) -> bool:
        """Write a small object on the condition *mode* of obstore; return whether it was written."""
        try:
            with self._contained(f"write {key}"), taken():
                obstore.put(self.native, key, content, mode=mode, use_multipart=False)
        except FileExistsError:
            return False
        return True

    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        part = max(PART_BYTES, -(-count // self._parts))
        with self._contained(f"upload {key}"):
            obstore.put(self.native, key, blocks, chunk_size=part, max_concurrency=AT_ONCE)

    def remove(self, keys: Sequence[str]) -> None:
        try:
            with self._translated("delete objects"), absent(), permitted():
                if keys:
                    obstore.delete(self.native, [*keys])
        except FileNotFoundError:  # another process deletes them, too
            for key in keys:
                action = self._translated(f"delete {key}")
                with contextlib.suppress(FileNotFoundError), action, absent(), permitted():
                    obstore.delete(self.native, key)

    def listing(self, prefix: str) -> Iterator[Entry]:
        with self._contained(f"list {prefix}"):
            for page in obstore.list(self.native, prefix.rstrip("/")):
                for entry in page:
                    if entry["path"].startswith(prefix):
                        written_s = entry["last_modified"].timestamp()
                        yield Entry(entry["path"], int(entry["size"]), written_s)

    def folders(self, prefix: str) -> list[str]:
        """Return the names directly below *prefix* that have objects below them."""
        with self._contained(f"list {prefix}"):
            answer = obstore.list_with_delimiter(self.native, prefix.rstrip("/"))
            return [name.rstrip("/").rpartition("/")[2] for name in answer["common_prefixes"]]

    def copy(self, source: str, target: str) -> None:
        """Let the service copy an object; one that is too large for that goes through this machine.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
        """
        try:
            with _gone(source), self._translated(f"copy {source} to {target}"), absent():
                obstore.copy(self.native, source, target)
        except RemoteError:
            size = self.size(source)
            if size is None or size <= COPY_BYTES:
                raise
            with self.opened(source) as body:
                self.put_blocks(target, _read_elsewhere(body), size)

    def opened(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        if start == end:
            return io.BytesIO()
        # A reader asks for the size first, and a manifest may be replaced after that: one request reads it.
        if end is None and not start and not key.endswith(MANIFEST):
            with self._streamed(key):
                body: Any = obstore.open_reader(self.native, key)
                return io.BufferedReader(BodyReader(body, partial(self._streamed, key)))
        return io.BytesIO(self.read_present(key, start, end))

    @contextlib.contextmanager
    def _contained(self, action: str) -> Iterator[None]:
        """Raise RemoteError if nothing can be written or listed because the bucket does not exist."""
        try:
            with self._translated(action), absent():
                yield
        except FileNotFoundError:
            raise RemoteError(*self._missing) from None

    @contextlib.contextmanager
    def _streamed(self, key: str) -> Iterator[None]:
        with _gone(key), self._translated(f"read {key}"), absent(), streamed():
            yield


@contextlib.contextmanager
def _gone(key: str) -> Iterator[None]:
    """Raise Conflict if an object does not exist any more."""
    try:
        yield
    except FileNotFoundError:
        raise Conflict(f"{key} has been deleted") from None


def _read_elsewhere(body: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks of *body*, which are read in another thread: obstore cannot read in that in which it writes."""
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(body.read, PART_BYTES)
        while block := ahead.result():
            ahead = pool.submit(body.read, PART_BYTES)
            yield block
