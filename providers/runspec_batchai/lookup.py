"""Find the contents of a group, workspace, cluster or experiment, which would be deleted with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_batchai import status
from runspec_batchai.naming import CLUSTER
from runspec_batchai.plan import OURS
from runspec_batchai.session import Arm
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


def ours(resource: Any) -> bool:
    """Return whether the tags of the resource group or workspace *resource* say that runspec made it."""
    tags = getattr(resource, "tags", None) or {}
    return all(tags.get(key) == value for key, value in OURS.items())


def refuse(arm: Arm, kind: str, path: Mapping[str, str]) -> None:
    """Raise Conflict if a resource to delete contains any job, or a resource that runspec did not make.

    Deleting a workspace deletes its clusters, and deleting a group deletes the storage accounts in it. Clusters
    of runspec, which another run may have made, and experiments without jobs do not count.
    https://learn.microsoft.com/rest/api/resources/resource-groups/delete
    """
    for what in _inside(arm, kind, path):
        raise Conflict(
            f"this would also delete {what}",
            "destroy its run (runspec destroy RUN), or delete it yourself",
        )


def _inside(arm: Arm, kind: str, path: Mapping[str, str]) -> Iterator[str]:
    if kind == "ResourceGroups":
        group = path["resourceGroupName"]
        yield from (f"the {resource.type} {resource.name}" for resource in arm.resources(group))
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
        names = [str(resource.name) for resource in arm.clusters(path)]
        yield from (f"the cluster {name}" for name in names if not CLUSTER.fullmatch(name))
        yield from (f"the file server {resource.name}" for resource in arm.file_servers(path))


def jobs(arm: Arm, path: Mapping[str, str]) -> list[Placed]:
    """Return every job of the workspace at *path*."""
    return [
        Placed(experiment.name, job)
        for experiment in arm.experiments(path)
        if experiment.name
        for job in arm.jobs({**path, "experimentName": experiment.name})
    ]
