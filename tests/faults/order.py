"""Whether writes, fsyncs, renames and calls come in an order that a loss of power cannot break.

kill -9 does not test fsync: what was written is there, synced or not. So the order of the steps is read from a trace,
as ALICE does: https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = Mapping[str, Any]


@dataclass
class Disk:
    """What of the steps so far a loss of power may take back."""

    bytes_of: set[str] = field(default_factory=set)  # files
    names_in: dict[str, set[str]] = field(default_factory=dict)  # folders
    renamed: dict[str, str] = field(default_factory=dict)  # folder: what was renamed into it last

    def take(self, step: Step) -> Iterator[str]:
        """Take in the next step, and give the rules it breaks."""
        paths = list(step["paths"])
        # A node's own folder is worth nothing after a loss of power: its run has failed.
        if any("/tasks/" in path for path in paths):
            return
        match step["what"]:
            case "open" if step["fresh"]:
                self._name(paths[0])
            case "mkdir" | "symlink":
                self._name(paths[0])
            case "write" if not paths[0].startswith("pipe"):
                self.bytes_of.add(paths[0])
            case "fsync":
                self.bytes_of.discard(paths[0])
                self.names_in.pop(paths[0], None)
                self.renamed.pop(paths[0], None)
            case "rename":
                yield from self._rename(*paths)
            case "call" | "spawn" | "end":
                yield from self._act(step["label"])

    def _name(self, path: str) -> None:
        self.names_in.setdefault(os.path.dirname(path), set()).add(path)

    def _rename(self, before: str, after: str) -> Iterator[str]:
        if os.path.basename(after).startswith(".gone-"):  # nobody is to find it whole
            self._forget(before)
        for path in sorted(self.bytes_of):
            if inside(path, before):
                yield f"{before} was renamed before the bytes of {path} were synced"
        for folder in sorted(self.names_in):
            if inside(folder, before):
                yield f"{before} was renamed before the names in {folder} were synced"
        self._forget(before)
        for names in self.names_in.values():
            names.discard(before)
        self._name(after)
        self.renamed[os.path.dirname(after)] = after

    def _forget(self, path: str) -> None:
        self.bytes_of = {p for p in self.bytes_of if not inside(p, path)}
        self.names_in = {f: n for f, n in self.names_in.items() if not inside(f, path)}

    def _act(self, label: str) -> Iterator[str]:
        """Nothing is done on the strength of what may be gone."""
        for path in sorted(self.bytes_of):
            if path.endswith("journal.jsonl"):
                yield f"'{label}' came before the journal's line was synced"
        for folder, after in sorted(self.renamed.items()):
            yield f"'{label}' came before the name of {after} was synced in {folder}"
        self.renamed.clear()


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def broken(steps: Sequence[Step]) -> list[str]:
    """Give the rules that *steps* break.

    What one step of the file system does may be lost until an fsync: of the file for its bytes, of the folder for its
    names. Before a rename, all that it names must be kept; before the next call or the end, so must the new name, and
    every line of the journal.
    """
    disk = Disk()
    return [wrong for step in steps for wrong in disk.take(step)]
