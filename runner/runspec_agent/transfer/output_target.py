"""Write what an output saves to the store of another owner as well, under the plain names of the files."""

import os
from typing import Dict, List, Mapping, Optional

from runspec_agent.base import files
from runspec_agent.base.failure import Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store import parallel
from runspec_agent.store.base import Bucket
from runspec_agent.store.manifest import Entry, Listed
from runspec_agent.transfer import other_stores
from runspec_agent.transfer.folder_walk import shown


class Target:
    """The files below *url*. Raise Failure if the job has no identity for it, or if there is no such bucket."""

    def __init__(self, url: str, env: Mapping[str, str], own: Optional[Bucket] = None) -> None:
        self.url = url
        self._bucket, prefix = other_stores.connect(url, env, own)
        self._prefix = prefix.rstrip("/") + "/" if prefix else ""
        self._sent: Dict[str, str] = {}  # the digest of each file that is there

    def follow(self, folder: str, saved: Listed) -> List[str]:
        """Write the files in *folder* that a save lists and that have changed; return a line for each that failed.

        Files that are not in the save any more stay.
        """
        left: Dict[str, str] = {}

        def send(name: str) -> None:
            try:
                self._put(folder, name, saved[name])
            except (Failure, OSError) as error:
                left[name] = str(error)

        parallel.each(send, [n for n, entry in saved.items() if self._sent.get(n) != entry.sha256])
        return [
            "{} is not in {}: {}".format(shown(n), self.url, why) for n, why in sorted(left.items())
        ]

    def _put(self, folder: str, name: str, entry: Entry) -> None:
        path = os.path.join(folder, files.local(name))
        key = self._prefix + name
        self._bucket.put_file(key, lambda: files.open_regular(path), entry.size, entry.sha256)
        self._sent[name] = entry.sha256


def folder_of(record: Mapping[str, object], output: Mapping[str, object], at: TaskIdentity) -> str:
    """Return the folders of a task and a node below the target, as in a mount of all tasks and nodes."""
    task = "/task-{}".format(at.task) if record["sweep"] else ""
    is_of_each = record["nodes"] != 1 and output.get("from") != "first"
    return task + ("/node-{}".format(at.rank) if is_of_each else "")
