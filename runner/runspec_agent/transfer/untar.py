"""Unpack a folder from the object store, where it is one tar named by the digest of the folder."""

import hashlib
import os
import re
import stat
import tarfile
from typing import IO, cast

from runspec_agent.base import files
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store.base import BLOCK, Bucket

FORMAT = b"runspec.bundle/v1\n"
NAMED = re.compile(
    r"(?:.*/)?([0-9a-f]{64})\.tar$"
)  # `runspec_jobs.provider.job_manifest.blob_name`


def unpack(bucket: Bucket, key: str, path: str) -> None:
    """Unpack the tar at *key* to *path*. Raise Failure if the folder does not have the digest in its name."""
    os.makedirs(path, exist_ok=True)
    digest = hashlib.sha256(FORMAT)
    with bucket.opened(key) as body:
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", body), mode="r|") as archive:
                for member in archive:
                    _check(member)
                    digest.update(_put(archive, member, path))
        except (tarfile.TarError, EOFError) as error:
            raise Failure("{} is not a tar file: {}".format(key, error), LOST) from error
    named = NAMED.match(key)
    if named is not None and named.group(1) != digest.hexdigest():
        text = "{} differs from the folder that was uploaded: run `runspec destroy --shared`, then apply again"
        raise Failure(text.format(key), USAGE)


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> bytes:
    """Write one file; return its line in the list that the folder's digest covers: `runspec_jobs.load.bundle`."""
    target = os.path.join(path, files.local(member.name))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    found, source = hashlib.sha256(), cast("IO[bytes]", archive.extractfile(member))
    with open(target, "wb") as stream:
        while True:
            block = source.read(BLOCK)
            if not block:
                break
            found.update(block)
            stream.write(block)
    try:
        os.chmod(target, member.mode)
        os.utime(target, (member.mtime, member.mtime))
    except OSError:  # some file systems support neither
        pass
    kind = "x" if member.mode & stat.S_IXUSR else "-"
    line = "{} {} {} ".format(found.hexdigest(), kind, member.size).encode("ascii")
    return line + member.name.encode(tarfile.ENCODING, "surrogateescape") + b"\0"


def _check(member: tarfile.TarInfo) -> None:
    """Raise Failure for members that runspec does not put into its tars: only plain files with plain names."""
    parts = member.name.split("/")
    if not member.isreg() or member.name.startswith("/") or ".." in parts:
        raise Failure(
            "'{}' is not a plain file, so runspec did not put it into this tar".format(member.name),
            USAGE,
        )
