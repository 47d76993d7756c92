"""The services' official descriptions, where they are at hand: beside the checkout, or where RUNSPEC_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.root import ROOT

BESIDE = ROOT.parent / "shared" / "data"
DATA = Path(os.environ.get("RUNSPEC_DATA", BESIDE))
