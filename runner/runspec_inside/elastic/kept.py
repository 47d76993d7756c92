"""What an elastic job keeps: the outputs of its first node, in one place, from which every generation begins.

Objects under an output's prefix are whole files, as always. What counts of them stands in a list of its own for each
save, and the fence names the list that counts: so a generation that is over can make nothing count any more.
"""

import json
import os
import threading
from typing import Any, Dict, List, Mapping, Optional

from .. import files, many
from ..bucket import Bucket
from ..saver import Listed, Output, Saver, bring
from ..sync import Entry
from ..words import LOST, Failure
from .member import Member

KEPT = "kept/"
OVER = "a later generation has begun: what this one wrote since its last save is not kept"


class Kept:
    """The outputs of one task. *prefix* is where its records lie, *below* where its outputs go."""

    def __init__(self, bucket: Bucket, prefix: str, below: str, task: int) -> None:
        self.bucket, self.prefix = bucket, prefix
        self._prefix = below + "outputs/{}/" + "{}/0/".format(task)
        self.folders: Dict[str, str] = {}
        self._every_s: Dict[str, Optional[float]] = {}

    def add(self, name: str, path: str, every_s: Optional[float]) -> None:
        self.folders[name], self._every_s[name] = path, every_s

    def listed(self, note: str) -> Dict[str, Listed]:
        """Return what *note* names, for each output; nothing has been kept where it is empty."""
        found = self.bucket.get(self.prefix + KEPT + note) if note else b"{}"
        if found is None:
            raise Failure("what was kept as {} is gone".format(note), LOST)
        kept: Mapping[str, List[Mapping[str, Any]]] = json.loads(found.decode("utf-8"))
        return {
            name: {e["path"]: Entry(e["size"], e["mtime_ns"], e["sha256"]) for e in entries}
            for name, entries in kept.items()
        }

    def restore(self, note: str) -> List[str]:
        """Make the folders hold what *note* names, and nothing else: all nodes begin from the same.

        Return the files that are not as it lists them: a generation that was over has replaced them, each as a whole.
        """
        others: List[str] = []
        for name, entries in self.listed(note).items():
            if name in self.folders:
                _drop(self.folders[name], entries)
                found = self._fetch(self._prefix.format(name), self.folders[name], entries)
                others += ["{}/{}".format(name, path) for path in found]
        return others

    def _fetch(self, prefix: str, folder: str, entries: Listed) -> List[str]:
        others: List[str] = []

        def one(name: str) -> None:
            target, entry = files.local(os.path.join(folder, name)), entries[name]
            if not _is(target, entry) and not bring(self.bucket, prefix + name, target, entry):
                others.append(name)

        many.each(one, list(entries))
        return sorted(others)

    def saver(self, member: Member, generation: int, note: str) -> "FencedSaver":
        """Return what saves for *generation*, which has begun from *note*."""
        kept = self.listed(note)
        saver = FencedSaver(self.bucket, member, generation, self.prefix + KEPT)
        saver.begun = {name: kept.get(name, {}) for name in self.folders}
        for name, folder in self.folders.items():
            prefix = self._prefix.format(name)
            output = Output(name, folder, prefix, self._every_s[name], kept.get(name))
            output.listed = None  # whoever saved last may have died before it wrote the manifest
            saver.outputs.append(output)
        return saver


class FencedSaver(Saver):
    """Saves for one generation, as long as that is the one that may write."""

    def __init__(self, bucket: Bucket, member: Member, generation: int, prefix: str) -> None:
        super().__init__(bucket)
        self.member, self.generation, self.prefix = member, generation, prefix
        self.begun: Dict[str, Listed] = {}  # what there was when the generation began
        self._count = 0
        self._one = threading.Lock()

    def has_new(self) -> bool:
        """Say whether something counts now that did not when the generation began."""
        return any(
            one.listed is not None and _contents(one.listed) != _contents(self.begun[one.name])
            for one in self.outputs
        )

    def once(self, output: Output) -> List[str]:
        if not self.member.may_write(self.generation):
            raise Failure(OVER, LOST)
        return super().once(output)

    def _list(self, output: Output) -> None:
        with self._one:
            self._count += 1
            note = "{}-{}".format(self.generation, self._count)
            kept = {one.name: _entries(one) for one in self.outputs}
            self.bucket.put(self.prefix + note, json.dumps(kept).encode("utf-8"))
            if not self.member.commit(self.generation, note):
                raise Failure(OVER, LOST)
        super()._list(output)


def _contents(listed: Listed) -> Dict[str, str]:
    return {path: entry.sha256 for path, entry in listed.items()}


def _entries(output: Output) -> List[Dict[str, Any]]:
    entries = dict(output.entries)
    return [dict(entries[path]._asdict(), path=path) for path in sorted(entries)]


def _is(path: str, entry: Entry) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)


def _drop(folder: str, entries: Listed) -> None:
    """Remove what is not kept: a node that was not the first may have written its own.

    And what is in the way of files: folders in their place, and links, through which others would be written.
    """
    wanted = {files.local(name) for name in entries}
    for at, folders, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(at, name)
            if os.path.islink(path) or os.path.relpath(path, folder) not in wanted:
                files.remove(path)
        for name in folders:
            path = os.path.join(at, name)
            own = os.path.relpath(path, folder)
            if os.path.islink(path):
                if own in wanted or any(other.startswith(own + os.sep) for other in wanted):
                    files.remove(path)
            elif own in wanted:
                files.remove_tree(path)
