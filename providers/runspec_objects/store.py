"""What providers do with the objects of a store, whatever keeps them: a bucket, a container or a volume."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Bundle, Conflict, OutputFile, Progress, RemoteError
from runspec_jobs.provider.saved_outputs import (
    Copy,
    publish as publish_outputs,
    read_saved_outputs,
)
from runspec_jobs.provider.streams.tar_stream import tar_blocks, tar_bytes

AT_ONCE = 8  # small objects, or parts of large ones, which are held in memory
KEY_BYTES = 1024  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
PREFIX_BYTES = 256  # of them, which the prefix of a profile may have
# What a name may not contain: obstore refuses control characters, empty parts, . and .., and no list has the last two.
UNFIT = re.compile("[\\x00-\\x1f\\x7f\\x81\\ufffe\\uffff]|//|(^|/)\\.{1,2}(/|$)|/$")


class Entry(NamedTuple):
    """An object, and when it was written, in seconds since 1970; None if that is unknown."""

    key: str
    size: int
    modified_s: float | None = None


class Store(ABC):
    """Objects by their keys. Every method raises the errors of `Client.call`."""

    @abstractmethod
    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        """Return the bytes from *start* up to *end*, or None if the object does not exist."""

    @abstractmethod
    def size(self, key: str) -> int | None:
        """Return the number of bytes of an object, or None."""

    @abstractmethod
    def put(self, key: str, content: bytes) -> None:
        """Write a small object, which replaces one that exists."""

    @abstractmethod
    def put_new(self, key: str, content: bytes) -> bool:
        """Write a small object if it does not exist; return whether it was written."""

    @abstractmethod
    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        """Write an object of *count* bytes, completely or not at all."""

    @abstractmethod
    def remove(self, keys: Sequence[str]) -> None:
        """Delete those of *keys* that exist."""

    @abstractmethod
    def listing(self, prefix: str) -> Iterator[Entry]:
        """Yield every object whose key begins with *prefix*, which ends with a slash."""

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy an object. Raises Conflict if *source* does not exist."""

    @abstractmethod
    def opened(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """Return a file of the bytes from *start* up to *end*. Raises Conflict if the object does not exist."""

    def read(self, key: str) -> bytes | None:
        """Return the content of a small object, or None."""
        return self.part(key, 0, None)

    def read_present(self, key: str, start: int, end: int | None) -> bytes:
        """Return the bytes from *start* up to *end*. Raises Conflict if the object does not exist."""
        data = self.part(key, start, end)
        if data is None:
            raise Conflict(f"{key} has been deleted")
        return data

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the contents of small objects, which are read in parallel."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.read, keys))

    def names(self, prefix: str) -> list[str]:
        """Return the keys of all objects below *prefix*, without it."""
        return [entry.key[len(prefix) :] for entry in self.listing(prefix)]

    def empty(self, prefix: str) -> None:
        """Delete every object below *prefix*."""
        assert prefix.strip("/"), "BUG: this would delete everything in the store"
        self.remove([entry.key for entry in self.listing(prefix)])

    def put_folder(self, key: str, bundle: Bundle, progress: Progress) -> None:
        """Write the content of *bundle* at *key* as one tar, which is made while it is sent."""
        whole = sum(file.bytes for file in bundle.files)
        self.put_blocks(key, tar_blocks(bundle, progress), tar_bytes(bundle))
        progress(whole, whole)

    def refuse_without_conditions(self, key: str, content: bytes) -> None:
        """Raise RemoteError if the store writes the object *key* anew, which has *content* already."""
        if self.put_new(key, content):
            raise RemoteError(
                "the store does not obey If-None-Match: two jobs of one run could both run",
                "use a store with conditional writes, such as AWS S3, Azure Blob Storage or a volume claim",
            )

    def outputs(self, base: str) -> list[OutputFile]:
        """Return every file that nodes have saved below *base*."""
        entries = ((entry.key, entry.size) for entry in self.listing(base))
        return read_saved_outputs(base, entries, self.opened)

    def publish(self, base: str) -> list[str]:
        """Copy the newest saves below *base* to their plain names; return those names that are not valid."""
        return publish_outputs(self, base, [entry.key for entry in self.listing(base)])

    # What `publish` needs besides: `PublicationStore`.

    def holds(self, key: str) -> bool:
        try:
            return len(key.encode()) <= KEY_BYTES - PREFIX_BYTES and not UNFIT.search(key)
        except UnicodeEncodeError:  # a file name with bytes that are not UTF-8 cannot be a key
            return False

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        del folder
        self.remove(keys)

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        del folder
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda copy: self.copy(copy.source, copy.target), copies))
