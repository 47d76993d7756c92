"""Save and restore the outputs of an elastic job: the first node saves them, and every generation starts from them.

Each save writes a note: one record with the manifests of all outputs. The fencing token names the note of the last
valid save, so a node of an older generation cannot make its saves valid. After each save, every output also gets a
manifest of its own, for programs that read outputs.
"""

import json
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Set

from runspec_agent.base import files
from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.elastic.member import Member
from runspec_agent.store.base import Bucket
from runspec_agent.store.manifest import MANIFEST, OBJECTS, Manifest, contents, of, parsed
from runspec_agent.transfer.output_saver import Output, Saver
from runspec_agent.transfer.restore import restore

if TYPE_CHECKING:
    from runspec_agent.transfer.resume import Resume, Start

KEPT = "kept/"
RESTORED = "restored/{}/"  # one record for each node of a generation that has restored all files
OVER = "a later generation has begun: files written since this generation's last save are discarded"
Manifests = Dict[str, Manifest]


class CheckpointManifest:
    """The saved outputs of one task, with records below *prefix* and files below *below*."""

    def __init__(self, bucket: Bucket, prefix: str, below: str, task: int) -> None:
        self.bucket, self.prefix, self.task = bucket, prefix, task
        self.resume: Optional[Resume] = None  # with which the job begins
        self._prefix = below + "outputs/{}/" + "{}/0/".format(task)
        self.folders: Dict[str, str] = {}
        self._every_s: Dict[str, Optional[float]] = {}
        self._keep: Dict[str, int] = {}
        self._names: Dict[str, str] = {}

    def add(
        self, name: str, path: str, every_s: Optional[float], keep: int = 1, known_as: str = ""
    ) -> None:
        """Add an output folder; programs may know it as *known_as*, too."""
        self.folders[name], self._every_s[name], self._keep[name] = path, every_s, keep
        self._names[name] = known_as

    def listed(self, note: str) -> Manifests:
        """Return the manifest of each output in *note*; an empty *note* stands for a job that has saved nothing."""
        if not note:
            return {}
        found = self.bucket.get(self.prefix + KEPT + note)
        if found is None:
            raise Failure("the save {} does not exist any more".format(note), LOST)
        try:
            kept: Mapping[str, Any] = json.loads(found.decode("utf-8"))
            return {name: of(one, note) for name, one in kept.items()}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            text = "the save {} cannot be read: {}"
            raise Failure(text.format(note, error), LOST) from error

    def restore(self, note: str) -> None:
        """Make the folders contain exactly the files of *note*, so that all nodes start from the same state.

        Before the first save, that is the state of the run that this one resumes. Raise Failure if a file is missing
        or differs from what was saved.
        """
        kept = self.listed(note)
        for name, start in self._starts(kept).items():
            _drop(self.folders[name], start.manifest)
            start.restore(self.folders[name])
            kept.pop(name, None)
        for name, manifest in kept.items():
            if name in self.folders:
                _drop(self.folders[name], manifest)
                prefix = self._prefix.format(name)
                restore(self.bucket, name, self.folders[name], prefix, manifest)

    def _starts(self, kept: Manifests) -> "Dict[str, Start]":
        """Return the saves of the run that this one resumes, for the outputs that *kept* has no save of."""
        if self.resume is None:
            return {}
        names = [name for name in self.folders if not kept.get(name, Manifest()).saves]
        starts = {name: self.resume.find(name, self.task, 0) for name in names}
        return {name: start for name, start in starts.items() if start is not None}

    def _output(self, name: str, manifest: Manifest, objects: List[str] = []) -> Output:  # noqa: B006 - only read
        folder, prefix = self.folders[name], self._prefix.format(name)
        every_s, keep = self._every_s[name], self._keep[name]
        names = [self._names[name]] if self._names[name] else []
        output = Output(self.bucket, name, folder, prefix, every_s, keep, names)
        output.know(manifest, objects)
        return output

    def has_restored(self, generation: int, rank: int, note: str) -> None:
        """Record that node *rank* has restored all files of *note*, from which *generation* starts."""
        if note:
            self.bucket.put(self.prefix + RESTORED.format(generation) + str(rank), b"1")

    def saver(self, member: Member, generation: int, note: str, nodes: int = 1) -> "FencedSaver":
        """Return a saver for *generation* with *nodes* nodes, which started from *note*."""
        kept = self.listed(note)
        saver = FencedSaver(self.bucket, member, generation, self.prefix + KEPT, note)
        saver.begun = {name: kept.get(name, Manifest()) for name in self.folders}
        prefix = self.prefix + RESTORED.format(generation)
        saver.all_began = lambda: sum(1 for _ in self.bucket.listing(prefix)) >= nodes
        for name, manifest in saver.begun.items():
            at = self._prefix.format(name) + OBJECTS
            objects = [found.key[len(at) :] for found in self.bucket.listing(at)]
            self.bucket.sweep(at)
            saver.outputs.append(self._output(name, manifest, objects))
        # A copy of what was resumed is no progress of this run.
        saver.begun.update((name, one.manifest) for name, one in self._starts(kept).items())
        return saver


class FencedSaver(Saver):
    """Save the outputs of one generation, as long as no later generation has begun."""

    def __init__(
        self, bucket: Bucket, member: Member, generation: int, prefix: str, note: str
    ) -> None:
        super().__init__(bucket)
        self.member, self.generation, self.prefix = member, generation, prefix
        self.begun: Manifests = {}  # the manifests when the generation began
        self.all_began: Callable[[], bool] = lambda: True
        self._note = self._begun_note = note  # the note of the last valid save
        self._old: List[str] = []  # earlier notes
        self._holding = (
            True  # whether a node may still read the files that the generation started from
        )
        self._followed: Set[str] = set()  # the outputs whose own manifest is up to date
        self._count = 0
        self._committing = threading.Lock()

    def has_new(self) -> bool:
        """Return whether this generation has made a valid save."""
        return any(
            contents(one.manifest.files) != contents(self.begun[one.name].files)
            for one in self.outputs
        )

    def _may_save(self) -> None:
        if not self.member.may_write(self.generation):
            raise Failure(OVER, LOST)

    def commit(self, output: Output, manifest: Manifest) -> None:
        with self._committing:
            self._count += 1
            note = "{}-{}".format(self.generation, self._count)
            all_of_them = {one.name: one.manifest for one in self.outputs}
            all_of_them[output.name] = manifest
            kept = {name: one.record() for name, one in all_of_them.items()}
            self.bucket.put(self.prefix + note, json.dumps(kept).encode("utf-8"))
            if not self.member.commit(self.generation, note):
                raise Failure(OVER, LOST)
            self._old += [self._note] if self._note else []
            self._note = note
            output.manifest = manifest
        self.follow(output)
        self._followed.add(output.name)

    def follow(self, output: Output) -> None:
        """Update the output's own manifest to the last valid save, unless a later generation has written it.

        The write is conditional: a saver that read the manifest before the fencing token was raised cannot replace
        one that a later generation wrote.
        """
        key = output.prefix + MANIFEST
        for _ in range(8):
            found = self.bucket.fetch(key)
            holder = parsed(None if found is None else found[0], key).holder
            if _order(holder) > self.generation:
                raise Failure(OVER, LOST)
            self._writes += 1
            mine = "{}-{}-{}".format(self.generation, self.holder, self._writes)
            text = output.manifest._replace(holder=mine).to_bytes()
            if self.bucket.swap(key, text, None if found is None else found[1]) is not None:
                return
        raise Failure("cannot update {}: other nodes kept changing it".format(key), LOST)

    def collect(self, output: Output) -> None:
        """Delete files of earlier saves, after the output's own manifest is up to date.

        The node that saved last may have been killed before it updated that manifest, which names files to delete. An
        error is ignored: the save is valid, and the next save deletes the files.
        """
        if output.name not in self._followed:
            self.follow(output)
            self._followed.add(output.name)
        try:
            spared = self._spared(output)
        except Failure:  # nothing is deleted unless the store says what is still needed
            return
        output.collect(spared)

    def _spared(self, output: Output) -> Set[str]:
        """Return the objects to keep: a slow node may still be restoring the files that the generation started from."""
        if self._holding and self._note != self._begun_note:
            self._holding = bool(self._begun_note) and not self.all_began()
        if self._holding:
            return self.begun[output.name].objects
        self._forget()
        return set()

    def _forget(self) -> None:
        """Empty the notes of earlier saves; a job has permission to delete objects of outputs only."""
        with self._committing:
            while self._old:
                self.bucket.put(self.prefix + self._old[-1], b"")
                self._old.pop()


def _order(holder: str) -> int:
    """Return the generation that wrote a manifest; manifests of elastic jobs always contain it."""
    first = holder.partition("-")[0]
    return int(first) if first.isdigit() else 0


def _drop(folder: str, manifest: Manifest) -> None:
    """Remove what is not in the save: this node may have written its own when it was not the first.

    Also remove folders that are in the way of files, and links, through which files elsewhere would be written. Empty
    folders stay if a version made the save that recorded none.
    """
    wanted = {files.local(name) for name in manifest.files}
    folders_wanted = {files.local(name) for name in manifest.shape.folders}
    for at, folders, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(at, name)
            if os.path.islink(path) or os.path.relpath(path, folder) not in wanted:
                files.remove(path)
        for name in folders:
            path = os.path.join(at, name)
            own = os.path.relpath(path, folder)
            if os.path.islink(path):
                files.remove(path)
            elif own in wanted or (folders_wanted and own not in folders_wanted):
                files.remove_tree(path)
