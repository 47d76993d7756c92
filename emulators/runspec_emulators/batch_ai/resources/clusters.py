"""Clusters: made, resized, deleted."""

from __future__ import annotations

import uuid
from typing import Any

from runspec_emulators.batch_ai.api import descriptions
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response, page
from runspec_emulators.batch_ai.errors import conflict, missing, refused
from runspec_emulators.batch_ai.model import OVER, PROVIDER, Cluster, Node, Workspace
from runspec_emulators.batch_ai.resources import quotas, scaling
from runspec_emulators.batch_ai.resources.long_running import NOTHING, created, deleted
from runspec_emulators.batch_ai.world import World


def create(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["clusterName"]
    properties: dict[str, Any] = request.body["properties"]
    existing = workspace.clusters.get(name.lower())
    if existing is None:
        check(properties)
        existing = new(world, workspace, name, properties)
    elif existing.properties != properties:
        raise conflict(f"The cluster '{name}' already exists with other properties.")
    cluster = existing
    return created(world, cluster, lambda: descriptions.cluster(cluster))


def new(world: World, workspace: Workspace, name: str, properties: dict[str, Any]) -> Cluster:
    made = Cluster(
        f"{workspace.id}/clusters/{name}", name, f"{PROVIDER}/workspaces/clusters", properties
    )
    quotas.check_clusters(world)
    target = scaling.first_target(made)
    # With autoScale, a cluster gets the nodes that the quota allows: AutoScaleSettings.minimumNodeCount.
    if "manual" in made.scale:
        quotas.check(world, made, target)
    group = workspace.id.split("/")[4]
    made.setup_suffix = "/".join(
        (
            *(world.settings.subscription, group, "workspaces", workspace.name),
            *("clusters", name, str(uuid.uuid4())),
        )
    )
    workspace.clusters[name.lower()] = made
    scaling.begin(world, made, target)
    return made


def check(properties: dict[str, Any]) -> None:
    """Refuse what the descriptions of the members rule out."""
    size = properties["vmSize"].lower()
    # "all Azure VM sizes except STANDARD_A0 and those with premium storage (STANDARD_GS,
    # STANDARD_DS, and STANDARD_DSV2 series)": ClusterBaseProperties.vmSize
    if size == "standard_a0" or size.startswith(("standard_gs", "standard_ds")):
        raise refused(f"The VM size '{properties['vmSize']}' is not supported.", "vmSize")
    user = properties["userAccountSettings"]
    if not user.keys() & {"adminUserPassword", "adminUserSshPublicKey"}:
        raise refused("A password or an SSH public key is required.", "userAccountSettings")
    check_scale(properties.get("scaleSettings") or {})


def check_scale(scale: dict[str, Any]) -> None:
    auto, manual = scale.get("autoScale"), scale.get("manual")
    if manual and manual["targetNodeCount"] < 0:
        raise refused("targetNodeCount is less than 0", "scaleSettings")
    if auto and not 0 <= auto["minimumNodeCount"] <= auto["maximumNodeCount"]:
        raise refused("minimumNodeCount is not between 0 and maximumNodeCount", "scaleSettings")
    if auto and auto.get("initialNodeCount", 0) > auto["maximumNodeCount"]:
        raise refused("initialNodeCount is more than maximumNodeCount", "scaleSettings")


def update(world: World, request: Request) -> Response:
    """Change the scale, at once: Clusters_Update has no other answer than 200."""
    cluster = cluster_of(world, request)
    scale = request.body.get("properties", {}).get("scaleSettings")
    if scale is not None:
        check_scale(scale)
        target = scale.get("manual", {}).get("targetNodeCount", 0)
        if target > max(cluster.target, len(cluster.nodes)):
            quotas.check(world, cluster, target)
        cluster.properties = {**cluster.properties, "scaleSettings": scale}
        scaling.changed(world, cluster)
    return Response(200, descriptions.cluster(cluster))


def get(world: World, request: Request) -> Response:
    return Response(200, descriptions.cluster(cluster_of(world, request)))


def cluster_of(world: World, request: Request) -> Cluster:
    name = request.path["clusterName"]
    cluster = world.workspace(request).clusters.get(name.lower())
    if cluster is None:
        raise missing("cluster", name)
    return cluster


def listed(world: World, request: Request) -> Response:
    clusters = world.workspace(request).clusters.values()
    return page(world.url, request, [descriptions.cluster(cluster) for cluster in clusters])


def logins(world: World, request: Request) -> Response:
    return Response(200, {"value": [login(node) for node in cluster_of(world, request).nodes]})


def login(node: Node) -> dict[str, Any]:
    return {"nodeId": node.id, "ipAddress": node.address, "port": node.port}


def delete(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["clusterName"].lower()
    cluster = workspace.clusters.get(name)
    if cluster is None:
        return NOTHING
    remove(world, workspace, cluster)
    return deleted(world, cluster, lambda: workspace.clusters.get(name) is not cluster)


def remove(world: World, workspace: Workspace, cluster: Cluster) -> None:
    """Begin to delete a cluster. Jobs that run on it or wait for it fail, which is undocumented."""
    cluster.deleted = True
    for job in [job for job in world.jobs() if job.cluster is cluster and job.state not in OVER]:
        scaling.fail(job, "ClusterDeleted", f"The cluster '{cluster.name}' was deleted.")
    scaling.dissolve(world, workspace, cluster)
