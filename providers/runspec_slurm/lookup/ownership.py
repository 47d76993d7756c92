"""Whether a job with the id of a run belongs to the run: Slurm reuses ids (MaxJobId), and sites may rename jobs.

Another cluster has other jobs with the same ids, and may share the workspace, such as a home folder.
"""

from __future__ import annotations

import math
from typing import Protocol

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Unavailable
from runspec_slurm.naming import run_of
from runspec_slurm.queue import Queue
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

# Argument: the run. Prints the path of the workspace as jobs have it, when the record was written, and when its
# last job claimed the run.
TIMES = f"""\
cd "runs/$1" 2>/dev/null || exit {NOTHING}
(cd ../.. && pwd -P)
stat -c %Y record.json || exit {NOTHING}
stat -c %Y job job.* 2>/dev/null | sort -n | tail -n 1 | grep . || stat -c %Y claim 2>/dev/null
exit 0
"""
# How much the clocks of the controller and of the file server may differ; those of Slurm's hosts have to agree:
# https://slurm.schedmd.com/quickstart_admin.html
SKEW_S = 600.0


class JobFacts(Protocol):
    """The facts of squeue or sacct by which a job is recognized."""

    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def submitted_s(self) -> float | None: ...
    @property
    def restarts(self) -> int: ...


class Times(NamedTuple):
    """The times between which the job of a run was submitted to the workspace *folder*, by the clock of its server."""

    folder: str
    first_s: float
    last_s: float = math.inf  # a requeued job has a later submission time


class JobOwnership:
    """Recognizes the jobs of runs. The workspace is read only for a job with another name, once for each run."""

    def __init__(self, store: WorkspaceStore, queue: Queue) -> None:
        self.store, self.queue = store, queue
        self._here: set[str] = set()  # runs that were submitted to this cluster, as far as is known
        self._times: dict[str, Times] = {}

    def is_of(self, run: str, job: JobFacts) -> bool:
        """Return whether *job*, which has the id of the job of *run*, is that job."""
        if run_of(job.name) == run:
            return True
        self.check_cluster(run)
        times = self._times.get(run) or self._asked(run)
        return times is not None and fits(job, times)

    def check_cluster(self, run: str) -> None:
        """Raise Unavailable if *run* was submitted to another cluster, whose jobs this controller does not know.

        Called before an id is believed, or the absence of a job: a job with the name of the run needs no check.
        """
        if run in self._here:
            return
        kept = self.store.read("runs", run, "cluster")
        wanted = "" if kept is None else kept.decode(errors="replace")
        if wanted and (there := self.queue.cluster()) != wanted:
            here = f"this is the cluster {there or '?'}"
            raise Unavailable(
                f"{self.store.way.where}: {run} was submitted to the cluster {wanted}, and {here}",
                f"set option host, or SLURM_CONF, to a login node of {wanted}",
            )
        self._here.add(run)

    def _asked(self, run: str) -> Times | None:
        output = self.store.look(f"look at {run}", TIMES, run)
        if output is None:
            return None
        folder, *times = output.decode(errors="replace").splitlines()
        given = Times(folder, *map(float, times))
        if len(times) > 1:
            self._times[run] = given
        return given


def fits(job: JobFacts, times: Times) -> bool:
    """Return whether *job* was submitted in the workspace and the time of *times*."""
    at = job.submitted_s
    if at is None or job.folder != times.folder or at < times.first_s - SKEW_S:
        return False
    return job.restarts > 0 or at <= times.last_s + SKEW_S
