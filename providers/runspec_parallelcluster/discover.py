"""Discovery: the problems that the schema of aws-parallelcluster finds in the configuration of a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_jobs.provider import RunspecError, Spec, state_folder
from runspec_parallelcluster import infrastructure
from runspec_parallelcluster.decision import decide
from runspec_parallelcluster.naming import digest
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.session import install

SCRIPT = Path(__file__).with_name("session") / "schema.py"
LONGEST_S = 120.0


def survey(spec: Spec, options: ParallelClusterOptions) -> dict[str, Any]:
    """Return `{"schema": {"version", "problems"}}`, or an empty mapping if the library is not installed."""
    if not options.manage:
        return {}
    try:
        pcluster = install.find_pcluster(options)
    except RunspecError:  # planning installs nothing: `check` notes that the schema was not asked
        return {}
    interpreter = pcluster and install.python(pcluster)
    if interpreter is None:
        return {}
    wanted = infrastructure.configuration(decide(spec, options))
    # A check takes over a second, and its answer to the same configuration does not change.
    asked = digest([str(interpreter), _changed(interpreter), wanted])
    cached = state_folder() / "parallelcluster" / "schema" / f"{asked[:32]}.json"
    # No such file, or one that was cut off: ask the library again.
    with contextlib.suppress(OSError, ValueError):
        return {"schema": json.loads(cached.read_text())}
    said = ask(interpreter, [wanted])
    if said is None:
        return {}
    schema = {"version": said["version"], "problems": said["problems"][0]}
    _keep(cached, schema)
    return {"schema": schema}


def ask(interpreter: Path, configurations: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the library's version and the problems of each configuration; None if the library does not answer."""
    try:
        done = subprocess.run(
            [str(interpreter), "-I", str(SCRIPT)],
            input=json.dumps(configurations),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        schema: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return schema


def _changed(interpreter: Path) -> float:
    """Return when the packages of *interpreter* last changed, because another version may answer differently."""
    times = [p.stat().st_mtime for p in interpreter.parent.parent.glob("lib/python*/site-packages")]
    return max(times, default=0.0)


def _keep(path: Path, schema: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the answer is only kept to save time
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, fresh = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(fd, "w") as file:
            json.dump(schema, file)
        os.replace(fresh, path)
