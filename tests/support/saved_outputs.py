"""What counts of the outputs of a run, in a folder that is a store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from runspec_agent.store.manifest import FIRST_FORMAT, MANIFEST, OBJECTS, parsed


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


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    """Return a manifest in the first format, whose files have their plain names."""
    listed = [
        {"path": n, "size": len(c), "mtime_ns": 5, "sha256": hashlib.sha256(c).hexdigest()}
        for n, c in files.items()
    ]
    return json.dumps({"format": FIRST_FORMAT, "files": listed}).encode()
