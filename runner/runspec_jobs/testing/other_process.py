"""Plans that another process makes, which shares nothing with this one but the packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from runspec_jobs.provider import Facts, Spec
from runspec_jobs.testing import elsewhere
from runspec_jobs.testing.world import World


def plan_elsewhere(world: World, folder: Path, *jobs: tuple[Spec, Facts]) -> dict[str, Any]:
    """Return what `elsewhere` prints: the plans of *jobs*, and the modules that were imported for them."""
    asked = {"provider": world.provider.name, "jobs": [_write_job(*job) for job in jobs]}
    folder = folder / "elsewhere"
    folder.mkdir()
    env = {
        "HOME": str(folder),
        "PATH": os.defpath,
        # Another order of sets and dictionaries with hashed keys than in this process.
        "PYTHONHASHSEED": "4711",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # An offset of 5:45 h, so that local time cannot be taken for UTC by accident.
        "TZ": "Asia/Kathmandu",
    }
    command = [sys.executable, "-P", str(Path(elsewhere.__file__))]
    text = json.dumps(asked)
    done = subprocess.run(
        command, input=text, env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    plans: dict[str, Any] = json.loads(done.stdout)
    return plans


def _write_job(spec: Spec, facts: Facts) -> dict[str, Any]:
    return {
        "token": "000001",
        "spec": spec.model_dump(mode="json"),
        "options": facts.options.model_dump(mode="json"),
        "sources": {name: source._asdict() for name, source in facts.sources.items()},
        "requirements": facts.requirements,
        "survey": facts.survey,
    }
