"""Download the inputs of a job from the object store."""

import os
from typing import Any, Mapping

from runspec_agent.base import files
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store import parallel
from runspec_agent.store.base import Bucket


def get(bucket: Bucket, mount: Mapping[str, Any], path: str) -> None:
    """Download what *mount* names to *path*: a folder or file that was uploaded as a tar, or objects of a prefix."""
    if mount["kind"] == "saves":
        from runspec_agent.transfer import run_output  # only few jobs need this import

        run_output.get(bucket, mount, path)
    elif mount["kind"] == "tar":
        from runspec_agent.transfer import untar  # imports the modules for tar files

        if mount.get("file"):
            _unpack_file(bucket, mount["key"], path)
        else:
            untar.unpack(bucket, mount["key"], path)
    else:
        _copy(bucket, mount["key"], path)


def link(source: str, path: str, exists: bool = False) -> None:
    """Make *path* a link to the folder *source* of a shared file system, which is created if it does not exist.

    If it has to exist already, raise Failure unless it does.
    """
    if exists and not os.path.isdir(source):
        text = "{} is missing: the store has no object there, or this machine has not mounted it"
        raise Failure(text.format(source), USAGE)
    os.makedirs(source, exist_ok=True)
    if os.path.isdir(path) and os.path.samefile(source, path):  # a volume is mounted there
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.islink(path) and os.readlink(path) == source:
        return
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)  # images often contain an empty folder there
    os.symlink(source, path)


def roomy(path: str, env: Mapping[str, str]) -> str:
    """Return *path*, after linking it to the disk that `RUNSPEC_DISK` names, if there is one.

    The first folder of *path* that does not exist becomes a link to that disk. Folders of the image stay where they
    are.
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


def _unpack_file(bucket: Bucket, key: str, path: str) -> None:
    """Unpack the one file in the tar at *key* to *path*, where it appears when it is complete."""
    from runspec_agent.transfer import untar  # as in `get`

    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    if os.path.isdir(path):
        raise Failure("{} is a folder already: a file needs another target".format(path), USAGE)
    fresh = os.path.join(folder, ".rs-{}.new".format(os.urandom(8).hex()))
    try:
        untar.unpack(bucket, key, fresh)
        os.rename(os.path.join(fresh, name), path)
    finally:
        files.remove_tree(fresh)


def _copy(bucket: Bucket, prefix: str, path: str) -> None:
    objects = [o for o in bucket.listing(prefix) if not o.key.endswith("/")]
    if not objects:
        raise Failure("the store has no object at {}".format(prefix), USAGE)

    parallel.each(lambda key: get_object(bucket, key, prefix, path), [o.key for o in objects])


def get_object(bucket: Bucket, key: str, prefix: str, path: str) -> None:
    """Download the object at *key* to its place below *path*: that of the key below *prefix*."""
    parts = key[len(prefix) :].split("/")
    if ".." in parts or "" in parts:
        raise Failure("'{}' is not a valid file name".format(key), USAGE)
    target = files.local(os.path.join(path, *parts))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    bucket.get_file(key, target)
