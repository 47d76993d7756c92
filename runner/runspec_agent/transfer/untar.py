"""Unpack a folder from the object store, where it is one tar named by the digest of the folder."""

import hashlib
import os
import re
import stat
import tarfile
from typing import IO, cast

from runspec_agent.base import files, limits
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store.base import BLOCK, Bucket

FORMAT, FORMAT_OF_PARTS = b"runspec.bundle/v1\n", b"runspec.bundle/v2\n"
PART_BYTES = 8 << 20
NAMED = re.compile(
    r"(?:.*/)?([0-9a-f]{64})(\.parts)?\.tar$"
)  # `runspec_jobs.provider.job_manifest.blob_name`


class Digest:
    """The digest of a file: its SHA-256, or if *by_parts* is set and it has several parts, that of their list."""

    def __init__(self, by_parts: bool, size: int) -> None:
        self.by_parts = by_parts and size > PART_BYTES
        self.list, self.part, self.left = hashlib.sha256(), hashlib.sha256(), PART_BYTES

    def update(self, block: bytes) -> None:
        while self.by_parts and len(block) >= self.left:
            self.part.update(block[: self.left])
            block = block[self.left :]
            self._end()
        self.part.update(block)
        self.left -= len(block)

    def _end(self) -> None:
        self.list.update("{}\n".format(self.part.hexdigest()).encode("ascii"))
        self.part, self.left = hashlib.sha256(), PART_BYTES

    def hexdigest(self) -> str:
        if not self.by_parts:
            return self.part.hexdigest()
        if self.left < PART_BYTES:
            self._end()
        return self.list.hexdigest()


def unpack(bucket: Bucket, key: str, path: str) -> None:
    """Unpack the tar at *key* to *path*. Raise Failure if the folder does not have the digest in its name."""
    os.makedirs(path, exist_ok=True)
    named = NAMED.match(key)
    by_parts = named is not None and named.group(2) is not None
    digest = hashlib.sha256(FORMAT_OF_PARTS if by_parts else FORMAT)
    with bucket.opened(key) as body:
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", body), mode="r|") as archive:
                for member in archive:
                    _check(member)
                    digest.update(_put(archive, member, path, by_parts))
        except (tarfile.TarError, EOFError) as error:
            raise Failure("{} is not a tar file: {}".format(key, error), LOST) from error
    if named is not None and named.group(1) != digest.hexdigest():
        text = "{} differs from the folder that was uploaded: run `runspec destroy --shared`, then apply again"
        raise Failure(text.format(key), USAGE)


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, by_parts: bool) -> bytes:
    """Write one file; return its line in the list that the folder's digest covers: `runspec_jobs.load.bundle`."""
    target = os.path.join(path, files.local(member.name))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    hasher = Digest(by_parts, member.size)
    source = cast("IO[bytes]", archive.extractfile(member))
    with open(target, "wb") as stream:
        while True:
            block = source.read(BLOCK)
            if not block:
                break
            hasher.update(block)
            stream.write(block)
    try:
        os.chmod(target, member.mode)
        # Versions up to 0.2.0 uploaded no times, and their folders are used as long as their content is the same.
        moment = max(member.mtime, limits.OLDEST_MTIME_S)
        os.utime(target, (moment, moment))
    except OSError:  # some file systems support neither
        pass
    kind = "x" if member.mode & stat.S_IXUSR else "-"
    line = "{} {} {} ".format(hasher.hexdigest(), kind, member.size).encode("ascii")
    return line + member.name.encode(tarfile.ENCODING, "surrogateescape") + b"\0"


def _check(member: tarfile.TarInfo) -> None:
    """Raise Failure for members that runspec does not put into its tars: only plain files with plain names."""
    parts = member.name.split("/")
    if not member.isreg() or member.name.startswith("/") or ".." in parts:
        raise Failure(
            "'{}' is not a plain file, so runspec did not put it into this tar".format(member.name),
            USAGE,
        )
