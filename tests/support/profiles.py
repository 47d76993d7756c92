"""The profile of the user whom a test has: it lies in their own folder, so it is trusted."""

from __future__ import annotations

import os
from pathlib import Path


def own_profile(config: Path | None = None) -> Path:
    """Return where the user's profile lies, below *config* where that is not the test's own; its folder is there."""
    folder = (config or Path(os.environ["XDG_CONFIG_HOME"])) / "runspec"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "profile.yaml"
