"""The operations of the service, by name."""

from __future__ import annotations

import time
from collections.abc import Callable

from runspec_emulators.batch_ai.api import requests
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response
from runspec_emulators.batch_ai.jobs.processes import end_marked
from runspec_emulators.batch_ai.resources import (
    clusters,
    file_servers,
    groups,
    jobs,
    output_files,
    quotas,
    workspaces,
)
from runspec_emulators.batch_ai.world import World
from runspec_emulators.frame.errors import ServiceError

CLOSE_S = 15.0  # how long `close` waits for the processes that it has killed
Operation = Callable[[World, Request], Response]

OPERATIONS: dict[str, Operation] = {
    "Operations_List": groups.operations_listed,
    "ResourceGroups_CheckExistence": groups.group_exists,
    "ResourceGroups_CreateOrUpdate": groups.create_group,
    "ResourceGroups_Delete": groups.delete_group,
    "ResourceGroups_Get": groups.get_group,
    "ResourceGroups_List": groups.list_groups,
    "Resources_ListByResourceGroup": groups.list_resources,
    "Workspaces_Create": workspaces.create_workspace,
    "Workspaces_Update": workspaces.update_workspace,
    "Workspaces_Delete": workspaces.delete_workspace,
    "Workspaces_Get": workspaces.get_workspace,
    "Workspaces_List": workspaces.list_workspaces,
    "Workspaces_ListByResourceGroup": workspaces.list_workspaces_of_group,
    "Experiments_Create": workspaces.create_experiment,
    "Experiments_Delete": workspaces.delete_experiment,
    "Experiments_Get": workspaces.get_experiment,
    "Experiments_ListByWorkspace": workspaces.list_experiments,
    "FileServers_Create": file_servers.create_file_server,
    "FileServers_Delete": file_servers.delete_file_server,
    "FileServers_Get": file_servers.get_file_server,
    "FileServers_ListByWorkspace": file_servers.list_file_servers,
    "Clusters_Create": clusters.create,
    "Clusters_Update": clusters.update,
    "Clusters_Delete": clusters.delete,
    "Clusters_Get": clusters.get,
    "Clusters_ListByWorkspace": clusters.listed,
    "Clusters_ListRemoteLoginInformation": clusters.logins,
    "Jobs_Create": jobs.create,
    "Jobs_Delete": jobs.delete,
    "Jobs_Get": jobs.get,
    "Jobs_ListByExperiment": jobs.listed,
    "Jobs_ListOutputFiles": output_files.listed,
    "Jobs_ListRemoteLoginInformation": jobs.logins,
    "Jobs_Terminate": jobs.terminate,
    "Usages_List": quotas.listed,
}


def answer(world: World, request: Request) -> Response:
    """Do what a request asks for; raise ServiceError where the service would refuse."""
    requests.check(request)
    subscription = request.path.get("subscriptionId", world.settings.subscription)
    if subscription.lower() != world.settings.subscription.lower():
        message = f"The subscription '{subscription}' could not be found."
        raise ServiceError(404, "SubscriptionNotFound", message)
    with world.lock:
        return OPERATIONS[request.operation](world, request)


def close(world: World) -> None:
    """End every process of every job; nothing happens after that."""
    world.timers.close()
    with world.lock:
        world.closed = True
        runs = [job.run for job in world.jobs() if job.run]
        setups = [node.mark for node in world.nodes() if node.state == "preparing"]
    for mark in setups:
        end_marked(mark)
    for run in runs:
        run.stop("closed", grace_s=0.0)
    end = time.monotonic() + CLOSE_S
    for run in runs:
        run.join(max(0.0, end - time.monotonic()))
