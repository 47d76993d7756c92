"""What jobs leave in folders, which may have any name and lead anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def list_below(folder: Path) -> Iterator[Path]:
    """Yield what is below *folder*, links as they are; nothing if there is no such folder.

    `Path.rglob` of Python 3.11.2, which Debian 12 has, raises OSError at a link whose target is too long for a path.
    """
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(place, name)
