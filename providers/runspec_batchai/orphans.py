"""Find orphans at Batch AI and in the container: resources that runspec made and that no local record mentions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from runspec_batchai.lookup import Placed, jobs, ours
from runspec_batchai.naming import CLUSTER, batchai
from runspec_batchai.session import Arm
from runspec_batchai.store import Store
from runspec_jobs.provider import Orphan, Request

# Clusters and jobs have no tags in this API. A cluster of runspec is named by a hash of its content, and a
# job of runspec has its run in a variable as well as in its name.
TASK = re.compile(r"-\d{5}")
RECORD = "record.json"  # a run with this file belongs to azure-batch


class OrphanFinder:
    """Finds orphans in one workspace and one container."""

    def __init__(self, arm: Arm, store: Store) -> None:
        self.arm, self.store, self.options = arm, store, arm.options
        self.path: Mapping[str, str] = batchai("Workspaces_Get", self.options).params["path"]

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterator[Orphan]:
        """Yield everything that belongs neither to *runs* nor to the names in *made*, in the order of deletion."""
        placed = jobs(self.arm, self.path)
        alone: dict[str, list[Placed]] = {}
        for job in placed:
            run = run_of(job.job)
            if run and run not in runs:
                alone.setdefault(run, []).append(job)
        for run in self._kept():
            if run not in runs:
                alone.setdefault(run, [])
        yield from (self._run(run, alone[run]) for run in sorted(alone))
        others = [job for job in placed if run_of(job.job) not in alone]
        yield from self._experiment(placed, others, made)
        yield from self._clusters(placed, made)
        yield from self._uploads(made)

    def _kept(self) -> list[str]:
        """Return the runs that have files in the container."""
        if not self.store.named:
            return []
        base = f"{self.options.prefix}/runs/"
        blobs = self.store.blobs
        return [run for run in blobs.folders(base) if blobs.size(f"{base}{run}/{RECORD}") is None]

    def _run(self, run: str, placed: list[Placed]) -> Orphan:
        alive = any(job.alive for job in placed)
        remove = [self._call("Jobs_Delete", job.experiment, job.job.name) for job in placed]
        if self.store.named:
            remove.append(self._emptied(f"{self.options.prefix}/runs/{run}/"))
        return Orphan(
            f"run {run}{', whose job is alive' if alive else ''}", tuple(remove), run, alive
        )

    def _experiment(
        self, placed: list[Placed], others: list[Placed], made: Collection[str]
    ) -> Iterator[Orphan]:
        """Yield the profile's experiment, if it has no other jobs and no local record mentions it."""
        name = self.options.experiment
        if not ours(self.arm.look("Workspaces", self.path)):
            return  # the owner of an experiment in a workspace of others is unknown
        known = {job.name for job in self.arm.experiments(self.path)}
        if name not in known or name in made or any(job.experiment == name for job in others):
            return
        alive = any(job.alive for job in placed if job.experiment == name)
        yield Orphan(f"experiment {name}", (self._call("Experiments_Delete", name),), alive=alive)

    def _clusters(self, placed: list[Placed], made: Collection[str]) -> Iterator[Orphan]:
        for cluster in self.arm.clusters(self.path):
            name = str(cluster.name)
            if not CLUSTER.fullmatch(name) or name in made or name == self.options.cluster:
                continue
            if str(cluster.provisioning_state) == "deleting":
                continue
            alive = any(job.alive and job.cluster == name for job in placed)
            nodes = cluster.current_node_count or 0
            what = f"cluster {name} ({nodes} node{'' if nodes == 1 else 's'} of {cluster.vm_size})"
            remove = batchai("Clusters_Delete", self.options, {"clusterName": name})
            yield Orphan(what, (remove,), alive=alive)

    def _uploads(self, made: Collection[str]) -> Iterator[Orphan]:
        if not self.store.named:
            return
        base = f"{self.options.prefix}/files/"
        for name, size in self.store.sizes(base).items():
            where = f"{base}{name}/"
            if where not in made:
                yield Orphan(f"upload {where} ({size:,} bytes)", (self._emptied(where),))

    def _call(self, operation: str, experiment: str, job: str | None = None) -> Request:
        names = {"experimentName": experiment} | ({"jobName": job} if job else {})
        return batchai(operation, self.options, names)

    def _emptied(self, prefix: str) -> Request:
        where = {"container": self.options.container or "", "prefix": prefix}
        return Request("runspec", "empty_prefix", {"path": where})


def run_of(job: Any) -> str:
    """Return the run of a job, or an empty string if runspec did not submit it."""
    for variable in job.environment_variables or ():
        if variable.name == "RUNSPEC_RUN":
            run = str(variable.value)
            rest = str(job.name).removeprefix(run)
            if rest != job.name and (rest == "" or TASK.fullmatch(rest)):
                return run
    return ""
