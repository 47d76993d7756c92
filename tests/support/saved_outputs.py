"""What counts of the outputs of a run, in a folder that is a store."""

from __future__ import annotations

from pathlib import Path

from runspec_agent.store.manifest import MANIFEST, OBJECTS, parsed


def saved(top: Path) -> dict[str, bytes]:
    """Give the files of the last save of each output below *top*, by their paths in it."""
    found: dict[str, bytes] = {}
    for manifest in top.rglob(MANIFEST):
        place = manifest.parents[1]
        for name, entry in parsed(manifest.read_bytes(), MANIFEST).files.items():
            try:
                found[name] = (place / OBJECTS / entry.object).read_bytes()
            except FileNotFoundError:  # another save has come meanwhile
                continue
    return found
