"""The supervisor of a run with its steps counted, or without one of its safeguards. Standard library only."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.faults.boundaries import Boundaries


def supervise(wanted: Mapping[str, Any]) -> None:
    from runspec_local.supervisor import process, reaper, supervision

    while wanted.get("gate") and not os.path.exists(wanted["gate"]):
        time.sleep(0.01)
    if wanted.get("pause_in_claim_s"):
        real = process.identity

        def identity() -> dict[str, Any]:
            time.sleep(wanted["pause_in_claim_s"])
            return real()

        vars(supervision)["identity"] = identity
    if wanted.get("without") == "claim":
        supervision.claim = unclaimed
    if wanted.get("trace"):

        def traced(folder: Path, leases: Any, claimed: int) -> None:
            Boundaries(wanted["world"], wanted["trace"], wanted.get("at")).install()
            supervision.supervise(folder, leases, claimed)

        vars(reaper)["supervise"] = traced
    reaper.main()


def unclaimed(folder: Path) -> bool:
    """Say that the run is ours, whoever else runs it."""
    import json

    from runspec_local.supervisor.process import identity

    temporary = folder / f".started.json.{os.getpid()}"
    temporary.write_text(json.dumps(identity()))
    os.rename(temporary, folder / "started.json")
    return True
