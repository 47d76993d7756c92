"""aws-parallelcluster in an environment of its own, as tools/setup --test makes it."""

from __future__ import annotations

import os
from pathlib import Path

from runspec_parallelcluster.naming import VERSION
from runspec_parallelcluster.session import install
from tests.support.requirements import lack, need

# Read before any test has a home of its own.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FOLDER = CACHE / "runspec-tests" / f"parallelcluster-{VERSION}"


def interpreter() -> Path:
    """Give its python; skip the test where there is none, and fail it in CI."""
    need("node")
    if not install.complete(FOLDER):
        lack(f"aws-parallelcluster {VERSION}, which tools/setup --test installs")
    return FOLDER / "bin" / "python"
