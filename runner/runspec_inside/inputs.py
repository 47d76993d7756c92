"""Getting what a job reads out of the object store."""

import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPResponse
from typing import IO, Any, Mapping, cast

from . import files
from .bucket import BLOCK, Bucket
from .words import LOST, USAGE, Failure

AT_ONCE = 16


def get(bucket: Bucket, mount: Mapping[str, Any], path: str) -> None:
    """Put what *mount* names at *path*: a folder that came as one tar, or all under a prefix."""
    if mount["kind"] == "tar":
        _unpack(bucket, mount["key"], path)
    else:
        _copy(bucket, mount["key"], path)


def link(source: str, path: str) -> None:
    """Show the folder *source* of a shared file system at *path*; it is made where it is not there yet."""
    os.makedirs(source, exist_ok=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.islink(path) and os.readlink(path) == source:
        return
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)  # images often have an empty folder there
    os.symlink(source, path)


class _Counted:
    """The body of an answer as tarfile reads it: a tar that ends between two files looks whole to it."""

    def __init__(self, answer: HTTPResponse, key: str) -> None:
        self._answer, self._key = answer, key
        self._left = int(answer.headers["Content-Length"])

    def read(self, size: int) -> bytes:
        try:
            block = self._answer.read(size)
        except (OSError, HTTPException) as error:
            raise self._broken(str(error)) from error
        self._left -= len(block)
        return block

    def finish(self) -> None:
        """Raise Failure unless all has come."""
        while self.read(BLOCK):
            pass
        if self._left:
            raise self._broken("{} bytes are missing".format(self._left))

    def _broken(self, why: str) -> Failure:
        return Failure("{} came only in part: {}".format(self._key, why), LOST)


def _unpack(bucket: Bucket, key: str, path: str) -> None:
    os.makedirs(path, exist_ok=True)
    with bucket.opened(key) as answer:
        stream = _Counted(answer, key)
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
                for member in archive:
                    _check(member)
                    member.name = files.local(member.name)
                    archive.extract(member, path)
        except (tarfile.TarError, EOFError) as error:
            raise Failure("{} came only in part: {}".format(key, error), LOST) from error
        stream.finish()


def _check(member: tarfile.TarInfo) -> None:
    """We made it of plain files with plain names; anything else is somebody else's."""
    parts = member.name.split("/")
    if not member.isreg() or member.name.startswith("/") or ".." in parts:
        raise Failure("'{}' has no place in a folder of ours".format(member.name), USAGE)


def _copy(bucket: Bucket, prefix: str, path: str) -> None:
    found = [o for o in bucket.listing(prefix) if not o.key.endswith("/")]
    if not found:
        raise Failure("there is nothing at {}".format(prefix), USAGE)

    def one(key: str) -> None:
        parts = key[len(prefix) :].split("/")
        if ".." in parts or "" in parts:
            raise Failure("'{}' cannot be a file".format(key), USAGE)
        target = files.local(os.path.join(path, *parts))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        bucket.get_file(key, target)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in threads.map(one, [o.key for o in found]):
            pass
