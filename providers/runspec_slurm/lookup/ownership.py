"""Whether a job with the id of a run is that run's: ids come around again (MaxJobId), and sites may rename jobs."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

# run; the workspace by the name that jobs have it by, when the record was written, and when the job had its claim
TIMES = f"""\
cd "runs/$1" 2>/dev/null || exit {NOTHING}
(cd ../.. && pwd -P)
stat -c %Y record.json || exit {NOTHING}
stat -c %Y job 2>/dev/null || stat -c %Y claim 2>/dev/null
exit 0
"""
# By so much the clocks of the controller and of the file server may differ; those of Slurm's hosts have to agree:
# https://slurm.schedmd.com/quickstart_admin.html
SKEW_S = 600.0


class Told(Protocol):
    """What squeue or sacct says of a job."""

    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def submitted_s(self) -> float | None: ...
    @property
    def restarts(self) -> int: ...


class Times(NamedTuple):
    """When the job of a run was submitted, by the clock of the workspace, which is *folder*."""

    folder: str
    first_s: float
    last_s: float = math.inf  # a requeue counts as another submission, later than this


class JobOwnership:
    """Knows the jobs of runs; the workspace is asked at most once for a run, and only of one with another name."""

    def __init__(self, shelf: WorkspaceStore) -> None:
        self.shelf = shelf
        self._times: dict[str, Times] = {}

    def is_of(self, run: str, told: Told) -> bool:
        """Return whether *told*, which has the id of the job of *run*, is that job."""
        if told.name == run:
            return True
        times = self._times.get(run) or self._asked(run)
        return times is not None and fits(told, times)

    def _asked(self, run: str) -> Times | None:
        found = self.shelf.look(f"look at {run}", TIMES, run)
        if found is None:
            return None
        folder, *times = found.decode(errors="replace").splitlines()
        given = Times(folder, *map(float, times))
        if len(times) > 1:
            self._times[run] = given
        return given


def fits(told: Told, times: Times) -> bool:
    """Return whether *told* was submitted where and when the run was."""
    at = told.submitted_s
    if at is None or told.folder != times.folder or at < times.first_s - SKEW_S:
        return False
    return told.restarts > 0 or at <= times.last_s + SKEW_S
