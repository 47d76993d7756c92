"""Getting what a job reads out of the object store."""

import os
from typing import Any, Mapping

from runspec_agent.base import files
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store import parallel
from runspec_agent.store.base import Bucket


def get(bucket: Bucket, mount: Mapping[str, Any], path: str) -> None:
    """Put what *mount* names at *path*: a folder that came as one tar, or all under a prefix."""
    if mount["kind"] == "tar":
        from runspec_agent.transfer import untar  # with all that a tar takes

        untar.unpack(bucket, mount["key"], path)
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


def roomy(path: str, env: Mapping[str, str]) -> str:
    """Return *path*, once what is written there goes to the disk that `RUNSPEC_DISK` names, if it names any.

    The first folder of it that is not there becomes a link to there. What an image has already stays where it is.
    """
    if "RUNSPEC_DISK" not in env or "RUNSPEC_BELOW" in env:
        return path
    disk = os.path.realpath(files.local(env["RUNSPEC_DISK"]))
    inside, missing = os.path.normpath(path), ""
    while not os.path.lexists(inside):
        inside, name = os.path.split(inside)
        missing = os.path.join(inside, name)
    there = os.path.realpath(inside)
    if missing and os.path.commonpath([there, disk]) != disk:
        target = os.path.join(disk, missing.lstrip("/"))
        os.makedirs(target, exist_ok=True)
        os.symlink(target, missing)
    return path


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

    parallel.each(one, [o.key for o in found])
