"""A folder that all workers of a run have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder above those of the workers, or that of the only process."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
