"""Bring what another run has saved: a mount of `run://JOB/OUTPUT`."""

import os
import sys
from typing import Any, Iterator, List, Mapping, Tuple

from runspec_agent.base import files
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store.base import Bucket
from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.manifest import MANIFEST, OURS, parsed
from runspec_agent.transfer.restore import restore

USAGE_LINE = "usage: output STORE RECORD TARGET"


def get(bucket: Bucket, mount: Mapping[str, Any], path: str, seen: str = "") -> None:
    """Make the folder *path* contain the newest saves of the output that *mount* names.

    *seen* is as in `restore`. A task or node that has saved nothing has an empty folder. Raise Failure if none has
    saved anything, or if a file differs from what was saved.
    """
    if "from" in mount:
        _get_copy(bucket, mount, path, seen)
        return
    copied = False
    for below, folder in _parts(mount):
        key = mount["key"] + below
        manifest = parsed(bucket.get(key + MANIFEST), key + MANIFEST)
        target = os.path.join(path, folder) if folder else path
        os.makedirs(files.local(target), exist_ok=True)  # a save may be empty
        if manifest.saves:
            at = os.path.join(seen, folder) if seen and folder else seen
            restore(bucket, mount["name"], target, key, manifest, at)
            copied = copied or any((manifest.files, manifest.shape.folders, manifest.shape.links))
    if not copied:
        text = "mount '{}': {} has saved nothing in this output"
        raise Failure(text.format(mount["name"], mount["run"]), USAGE)


def _get_copy(bucket: Bucket, mount: Mapping[str, Any], path: str, seen: str) -> None:
    """Restore the saves from a copy that was uploaded as one tar; it is unpacked on the disk of *path*."""
    from runspec_agent.transfer import untar  # imports the modules for tar files

    unpacked = os.path.join(path, OURS)  # no output has a file of that name
    try:
        untar.unpack(bucket, mount["from"], unpacked)
        saves = FolderBucket({"RUNSPEC_STORE": "file://" + os.path.realpath(unpacked)})
        get(saves, {name: value for name, value in mount.items() if name != "from"}, path, seen)
    finally:
        files.remove_tree(unpacked)


def _parts(mount: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """Yield where each task and node has its saves below the output, and the folder for its files."""
    tasks = mount.get("tasks")
    nodes = mount.get("nodes")
    for task in range(tasks) if tasks else [mount["task"]]:
        for node in range(nodes or 1):
            folders = ["task-{}".format(task)] * bool(tasks) + ["node-{}".format(node)] * bool(
                nodes
            )
            yield "{}/{}/".format(task, node), "/".join(folders)


def main(argv: List[str]) -> int:
    """Bring an output for a job of this machine, whose store is a folder.

    The field `seen` of the record is the path by which the job knows TARGET. It is no argument, because a job keeps the
    agent that it was submitted with, which may be older.
    """
    import json

    try:
        store, record, target = argv
    except ValueError:
        raise Failure(USAGE_LINE) from None
    try:
        mount = json.loads(record)
        bucket = FolderBucket({"RUNSPEC_STORE": "file://" + store})
        get(bucket, mount, target, mount.get("seen", ""))
    except (Failure, OSError) as error:
        print("runspec: {}".format(error), file=sys.stderr)
        return USAGE
    return 0
