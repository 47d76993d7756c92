"""The services' official descriptions, where they are at hand: beside the checkout, or where RUNSPEC_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("RUNSPEC_DATA", BESIDE))
