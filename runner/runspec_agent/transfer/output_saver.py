"""Save the outputs of a job to the object store while it runs, and once more at its end.

A save is a complete set of files: see `manifest`. A new saver takes over by writing the manifest, which so gets
another version than an earlier saver expects: a machine that was thought lost and continues cannot make its saves
valid any more.
"""

import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, AbstractSet, Dict, Iterable, List, Optional, Set

from runspec_agent.base.failure import LOST, Failure, NoName, is_no_space
from runspec_agent.store import parallel
from runspec_agent.store.base import Bucket, Opened
from runspec_agent.store.manifest import (
    MANIFEST,
    OBJECTS,
    PUBLISHED,
    Manifest,
    object_key,
    parsed,
)
from runspec_agent.transfer.folder_walk import lost_lines, shown
from runspec_agent.transfer.restore import restore
from runspec_agent.transfer.snapshot import Snapshot, Unsettled

if TYPE_CHECKING:
    from runspec_agent.transfer.output_target import Target

TRIES = 3  # attempts of the last pass
# Seconds without a change before a save: a program that writes two files of a checkpoint has probably written both by
# then. It is a fraction of the interval between saves if that is shorter. If a program never stops writing, the wait
# ends after one interval.
SETTLED_S, SETTLED_PART = 1.0, 0.2
PATIENCE_S = 10.0
TURNS = 8  # attempts to take over, while another node writes
OVER = "another machine has replaced this node: files written since this node's last save are discarded"


class Output:
    """An output folder and its place in the store. *keep* is the number of saves to keep.

    *names* are other paths of the folder, as programs know it.
    """

    def __init__(
        self,
        bucket: Bucket,
        name: str,
        path: str,
        prefix: str,
        every_s: Optional[float],
        keep: int = 1,
        names: Iterable[str] = (),
    ) -> None:
        self.bucket, self.name, self.path, self.prefix = bucket, name, path, prefix
        self.every_s, self.keep = every_s, keep
        self.manifest = Manifest()
        self.version: Optional[str] = None  # the version of the manifest in the store
        self.sure = True  # whether *manifest* is known to be valid; not if a reply was lost
        self.snapshot = Snapshot(path, self.send, names)
        self.one = threading.Lock()  # one save at a time
        self.refused: Optional[Failure] = None  # why old objects could not be deleted
        self.target: Optional[Target] = None  # where the files are written as well
        self._objects: Set[str] = set()  # the objects in the store
        self._by_digest: Dict[str, str] = {}  # the objects whose content is known
        self._owner = os.urandom(8).hex()
        self._count = 0
        self._sending: Set[str] = set()  # SHA-256 of contents that are being uploaded
        self._counting = threading.Condition()

    def know(self, manifest: Manifest, objects: List[str]) -> None:
        """Start from *manifest* and the names of all *objects* in the store."""
        self.manifest = manifest
        named = [e for save in manifest.saves for e in save.files.values() if e.object]
        self._objects = {*objects, *(entry.object for entry in named)}
        self._by_digest = {entry.sha256: entry.object for entry in named}
        self.snapshot.know(manifest.files)

    def send(self, opened: Opened, size: int, digest: str) -> str:
        """Return the object with this content: an existing one, one that is being uploaded, or a new one."""
        with self._counting:
            while digest in self._sending:
                self._counting.wait()
            there = self._by_digest.get(digest)
            if there is not None:
                return there
            self._count += 1
            made = "{}-{}".format(self._owner, self._count)
            self._objects.add(made)  # a part of the object may exist, and has to be deleted
            self._sending.add(digest)
        try:
            self.bucket.put_file(self.prefix + OBJECTS + made, opened, size, digest)
            self._by_digest[digest] = made
        finally:
            with self._counting:
                self._sending.remove(digest)
                self._counting.notify_all()
        return made

    def collect(self, spared: Set[str]) -> None:
        """Delete the objects that no save names, except *spared*; failed deletions are repeated after the next save."""
        needed = self.manifest.objects | spared
        doomed = sorted(self._objects - needed)
        if self.refused is not None:
            doomed = doomed[:1]  # without permission to delete, one request is enough
        # Some may have been deleted, whatever the answer is.
        self._by_digest = {sha: made for sha, made in self._by_digest.items() if made in needed}
        try:
            self.bucket.delete_all([self.prefix + OBJECTS + made for made in doomed])
        except Failure as failure:
            if self.refused is None:
                text = "runspec: output '{}': objects of old saves cannot be deleted: {}"
                print(text.format(self.name, failure), file=sys.stderr)
                sys.stderr.flush()
            self.refused = failure
            return
        self.refused = None
        self._objects.difference_update(doomed)


class Saver:
    """Save outputs, each separately, as long as no other saver has taken over."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.outputs: List[Output] = []
        self.full = False  # whether something is not saved because the store is full
        self.replaced = False  # whether another saver has taken over
        self.holder = os.urandom(8).hex()
        self._writes = 0
        self._over = threading.Event()
        self._threads: List[threading.Thread] = []

    def add(
        self,
        name: str,
        path: str,
        prefix: str,
        every_s: Optional[float],
        keep: int = 1,
        alone: bool = False,
        restoring: bool = True,
        names: Iterable[str] = (),
    ) -> None:
        """Take over the output at *prefix* and, with *restoring*, restore the last save.

        *alone*: no earlier saver can exist, so an output without a manifest need not be taken over. Raise Failure if
        the save cannot be restored completely.
        """
        output = Output(self.bucket, name, path, prefix, every_s, keep, names)
        for _ in range(TURNS):
            current = self.bucket.fetch(prefix + MANIFEST)
            if current is None and alone:
                break
            # After this write, an earlier saver cannot make any of these saves valid.
            objects = [
                o.key[len(prefix + OBJECTS) :] for o in self.bucket.listing(prefix + OBJECTS)
            ]
            content, output.version = current if current is not None else (None, None)
            output.know(parsed(content, prefix + MANIFEST), objects)
            if self.swap_manifest(output, output.manifest):
                break
        else:
            raise Failure(
                "output '{}': cannot take over its manifest: another node keeps changing it".format(
                    name
                ),
                LOST,
            )
        if output.version is not None:
            self.bucket.sweep(prefix + OBJECTS)
        self.outputs.append(output)
        if restoring:
            restore(self.bucket, name, path, prefix, output.manifest)
            _tell_lost(output, "the last save is without")

    def start(self) -> None:
        for output in self.outputs:
            if output.every_s is not None:
                thread = threading.Thread(
                    target=self._go_on, args=(output, output.every_s), daemon=True
                )
                thread.start()
                self._threads.append(thread)

    def _go_on(self, output: Output, every_s: float) -> None:
        while not self._over.wait(every_s):
            try:
                self._settled(output)
            except (Failure, OSError):  # the next pass, or the last one, reports it
                pass

    def _settled(self, output: Output) -> None:
        """Save the folder when nothing has been written for a while, or as it is after a timeout."""
        every_s = output.every_s or 0.0
        settled_s = min(SETTLED_S, every_s * SETTLED_PART)
        until = time.monotonic() + min(PATIENCE_S, max(1.0, every_s))
        while True:
            output.snapshot.settle(self._over.wait, settled_s, until)
            try:
                self.once(output)
                return
            except Unsettled:
                if self._over.wait(0.05):
                    return

    def finish(self) -> List[str]:
        """Save everything; return a line for each thing that could not be saved."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        return self.whole()

    def whole(self) -> List[str]:
        """Save everything now; return a line for each thing that could not be saved."""
        lost: List[str] = []
        for output in self.outputs:
            lost += ["output '{}': {}".format(output.name, line) for line in self._last(output)]
            _tell_lost(output, "not saved, as it cannot be")
        return lost

    def _last(self, output: Output) -> List[str]:
        left: List[str] = []
        full = False
        for count in range(TRIES):
            try:
                left, full = self.once(output), False
            except (Failure, OSError) as error:
                left, full = [str(error)], is_no_space(error)
            if not left or self.replaced:
                break
            if count < TRIES - 1:
                time.sleep(0.2)
        self.full = self.full or full
        return left

    def once(self, output: Output) -> List[str]:
        """Save the folder if it has changed since the last save; return the files that cannot be read.

        Raise Failure if no save was made: the one before stays valid.
        """
        with output.one:
            self._may_save()
            there = output.manifest
            taken = output.snapshot.taken(there.files)
            shape = output.snapshot.shape
            same = taken == there.files and shape.same(there.shape)
            if not (output.sure and there.saves and same):
                made = there.plus(taken, shape, time.time(), output.keep)
                output.sure = False
                self.commit(output, made)
                output.manifest, output.sure = made, True
            self.collect(output)
            left = output.snapshot.wrong()
            if output.target is not None:
                left += output.target.follow(output.path, output.manifest.saves[-1].files)
            return left

    def _may_save(self) -> None:
        if self.replaced:
            raise Failure(OVER, LOST)

    def collect(self, output: Output) -> None:
        """Delete the objects that no save of *output* names any more."""
        output.collect(set())

    def commit(self, output: Output, manifest: Manifest) -> None:
        """Make *manifest* the valid one.

        Raise Failure if another saver has taken over, or if the outcome is unknown.
        """
        if self.swap_manifest(output, manifest):
            return
        current = self.bucket.fetch(
            output.prefix + MANIFEST
        )  # this saver's own, if a reply was lost?
        if current is not None and parsed(current[0], MANIFEST).holder.startswith(self.holder):
            output.version = current[1]
            if self.swap_manifest(output, manifest):
                return
        self.replaced = True
        raise Failure(OVER, LOST)

    def swap_manifest(self, output: Output, manifest: Manifest) -> bool:
        self._writes += 1  # no two manifests are equal: see Bucket.swap
        text = manifest._replace(holder="{}-{}".format(self.holder, self._writes)).to_bytes()
        new = self.bucket.swap(output.prefix + MANIFEST, text, output.version)
        if new is not None:
            output.version = new
        return new is not None

    def publish(self) -> List[str]:
        """Publish the files of the last saves under their own paths, for other tools; no attempt starts from them.

        Return a line for each output that could not be published: the next client that looks at the run publishes it.
        """
        left: List[str] = []
        for output in self.outputs:
            try:
                lines = published(output) if self._counts(output) else []
            except Failure as failure:
                lines = [str(failure)]
            left += ["output '{}': {}".format(output.name, line) for line in lines]
        return left

    def _counts(self, output: Output) -> bool:
        """Return whether the last save known here is the valid one, and not that of a later machine."""
        there = parsed(self.bucket.get(output.prefix + MANIFEST), output.prefix + MANIFEST)
        return bool(there.saves) and there.saves == output.manifest.saves


def published(output: Output) -> List[str]:
    """Copy each file of the last save to its own path, delete published files that are not in the save, and record it.

    Return a line for each name that the store rejects. Raise Failure if nothing can be published.
    """
    bucket, save = output.bucket, output.manifest.saves[-1]
    before = _published_before(bucket.get(output.prefix + PUBLISHED))
    # If this process is killed, the next one has to know all names that may exist.
    _note(output, 0, before | save.files.keys())
    left: Dict[str, str] = {}

    def copy(name: str) -> None:
        entry = save.files[name]
        try:
            bucket.copy(object_key(output.prefix, name, entry), output.prefix + name, entry.size)
        except Failure as failure:
            if failure.code == LOST:
                raise
            left[name] = str(failure)

    try:
        bucket.delete_all([output.prefix + name for name in sorted(before - save.files.keys())])
    except NoName:  # no such object can exist
        pass
    parallel.each(copy, [name for name, entry in save.files.items() if entry.object])
    _note(output, save.number, save.files.keys() - left.keys())
    return sorted("{}: {}".format(shown(name), why) for name, why in left.items())


def _note(output: Output, number: int, names: AbstractSet[str]) -> None:
    record = {"save": number, "files": sorted(names)}
    output.bucket.put(output.prefix + PUBLISHED, json.dumps(record).encode("utf-8"))


def _published_before(note: Optional[bytes]) -> Set[str]:
    """Return the published paths that an earlier attempt may have left; a damaged record is ignored."""
    try:
        return (
            set() if note is None else {str(n) for n in json.loads(note.decode("utf-8"))["files"]}
        )
    except (ValueError, LookupError, TypeError):
        return set()


def _tell_lost(output: Output, what: str) -> None:
    """Print a line for each thing of the last save that could not be saved, which is no failure of the job."""
    for line in lost_lines(output.manifest.shape):
        print("runspec: output '{}': {}: {}".format(output.name, what, line), file=sys.stderr)
    sys.stderr.flush()
