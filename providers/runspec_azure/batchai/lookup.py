"""What is in a group, a workspace, a cluster or an experiment: all of it would go with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from runspec_azure.batchai import status
from runspec_azure.batchai.naming import CLUSTER
from runspec_azure.batchai.plan import OURS
from runspec_azure.batchai.session import Arm
from runspec_jobs.provider import Conflict


class Placed(NamedTuple):
    """A job and the experiment that it is in."""

    experiment: str
    job: Any

    @property
    def alive(self) -> bool:
        return not status.node(0, self.job).state.terminal

    @property
    def cluster(self) -> str:
        return status.cluster_of(self.job).lower()


def ours(found: Any) -> bool:
    """Return whether runspec made a group or a workspace: one that was there holds other things."""
    tags = getattr(found, "tags", None) or {}
    return all(tags.get(key) == value for key, value in OURS.items())


def refuse(arm: Arm, kind: str, path: Mapping[str, str]) -> None:
    """Raise Conflict while a job is in what is to go, whoever's it is, or something of others.

    A workspace takes its clusters along, a group the accounts of storage in it. Clusters of ours may go,
    for another run may have made them, and so may experiments, which without jobs are names.
    https://learn.microsoft.com/rest/api/resources/resource-groups/delete
    """
    for what in _inside(arm, kind, path):
        raise Conflict(f"{what} is there: it would go, too", "runspec destroy RUN, or delete it")


def _inside(arm: Arm, kind: str, path: Mapping[str, str]) -> Iterator[str]:
    if kind == "ResourceGroups":
        group = path["resourceGroupName"]
        yield from (f"the {one.type} {one.name}" for one in arm.resources(group))
        return
    if kind not in ("Workspaces", "Clusters", "Experiments"):
        return
    for placed in jobs(arm, path):
        here = {
            "Workspaces": True,
            "Experiments": placed.experiment == path.get("experimentName"),
            "Clusters": placed.alive and placed.cluster == path.get("clusterName", "").lower(),
        }
        if here[kind]:
            yield f"the job {placed.job.name}"
    if kind == "Workspaces":
        names = [str(one.name) for one in arm.clusters(path)]
        yield from (f"the cluster {name}" for name in names if not CLUSTER.fullmatch(name))
        yield from (f"the file server {one.name}" for one in arm.file_servers(path))


def jobs(arm: Arm, path: Mapping[str, str]) -> list[Placed]:
    """Return every job of the workspace at *path*."""
    return [
        Placed(one.name, job)
        for one in arm.experiments(path)
        if one.name
        for job in arm.jobs({**path, "experimentName": one.name})
    ]
