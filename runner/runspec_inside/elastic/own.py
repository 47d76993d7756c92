"""What each node of an elastic job keeps for itself, `from: all`: in its seat's place, which one machine has at a time.

A seat whose node was lost is another machine's, and the lost one may wake up. So the manifest, by which files count, is
written on condition: whoever takes the seat writes it first, and who had it before finds another version of it.
"""

import os
import threading
from typing import Dict, List, Optional

from .. import files, many
from ..bucket import Bucket
from ..saver import MANIFEST, Listed, Output, Saver, bring, entries_of, manifest
from ..words import LOST, Failure

TRIES = 8  # to take a place, while somebody else writes there
OVER = "another machine has taken this node's place: what this one wrote since its last save is not kept"


class OwnSaver(Saver):
    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self.replaced = False  # whether what this node saves counts no more
        self._holder = os.urandom(8).hex()
        self._writes = 0
        self._versions: Dict[str, str] = {}  # of the manifests, by output
        self._one = threading.Lock()

    def add(self, name: str, path: str, prefix: str, every_s: Optional[float]) -> None:
        """Take the place at *prefix*, and bring back what was saved there and is not here."""
        for _ in range(TRIES):
            found = self.bucket.fetch(prefix + MANIFEST)
            listed = {} if found is None else entries_of(found[0])
            output = Output(name, path, prefix, every_s, listed)
            if self._swapped(output, None if found is None else found[1]):
                break
        else:
            raise Failure("output '{}': its place is written to all the time".format(name), LOST)
        self.outputs.append(output)
        _bring_missing(self.bucket, output, listed)

    def once(self, output: Output) -> List[str]:
        with self._one:  # the end of a generation does not wait for its turn
            if self.replaced:
                raise Failure(OVER, LOST)
            return super().once(output)

    def _list(self, output: Output) -> None:
        if not self._swapped(output, self._versions[output.name]):
            self.replaced = True
            raise Failure(OVER, LOST)
        output.listed = dict(output.entries)

    def _swapped(self, output: Output, version: Optional[str]) -> bool:
        self._writes += 1  # no two manifests are equal: see Bucket.swap
        text = manifest(output.entries, holder="{}-{}".format(self._holder, self._writes))
        new = self.bucket.swap(output.prefix + MANIFEST, text, version)
        if new is not None:
            self._versions[output.name] = new
        return new is not None


def _bring_missing(bucket: Bucket, output: Output, listed: Listed) -> None:
    """What is here is newer: this machine was not lost, and only what ran on it was."""

    def one(name: str) -> None:
        target = files.local(os.path.join(output.path, name))
        if not os.path.lexists(target):
            bring(bucket, output.prefix + name, target, listed[name])

    many.each(one, list(listed))
