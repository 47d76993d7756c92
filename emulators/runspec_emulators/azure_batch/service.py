"""The operations of the service, by name."""

from __future__ import annotations

from collections.abc import Callable

from runspec_emulators.azure_batch import authentication
from runspec_emulators.azure_batch.account import images, pools
from runspec_emulators.azure_batch.api import requests
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.nodes import node_requests
from runspec_emulators.azure_batch.resource import Resource, Response
from runspec_emulators.azure_batch.settings import Settings
from runspec_emulators.azure_batch.tasks import files, jobs, task_requests
from runspec_emulators.azure_batch.tasks.runner import Runner
from runspec_emulators.azure_batch.world import World
from runspec_emulators.azure_services.identity import Identity

Operation = Callable[[World, Request], Response]

OPERATIONS: dict[str, Operation] = {
    "Account_ListPoolNodeCounts": pools.counts,
    "Account_ListSupportedImages": images.images,
    "ComputeNode_Get": node_requests.show,
    "ComputeNode_List": node_requests.listed,
    "ComputeNode_Reboot": node_requests.reboot,
    "File_DeleteFromComputeNode": files.delete,
    "File_DeleteFromTask": files.delete,
    "File_GetFromComputeNode": files.get,
    "File_GetFromTask": files.get,
    "File_GetPropertiesFromComputeNode": files.head,
    "File_GetPropertiesFromTask": files.head,
    "File_ListFromComputeNode": files.listed,
    "File_ListFromTask": files.listed,
    "Job_Add": jobs.add,
    "Job_Delete": jobs.delete,
    "Job_Disable": jobs.disable,
    "Job_Enable": jobs.enable,
    "Job_Get": jobs.show,
    "Job_GetTaskCounts": task_requests.counts,
    "Job_List": jobs.listed,
    "Job_ListPreparationAndReleaseTaskStatus": jobs.preparations,
    "Job_Patch": jobs.patch,
    "Job_Terminate": jobs.terminate,
    "Pool_Add": pools.add,
    "Pool_Delete": pools.delete,
    "Pool_DisableAutoScale": pools.disable_autoscale,
    "Pool_EnableAutoScale": pools.enable_autoscale,
    "Pool_EvaluateAutoScale": pools.evaluate_autoscale,
    "Pool_Exists": pools.exists,
    "Pool_Get": pools.show,
    "Pool_List": pools.listed,
    "Pool_Patch": pools.patch,
    "Pool_RemoveNodes": pools.remove_nodes,
    "Pool_Resize": pools.resize,
    "Pool_StopResize": pools.stop_resize,
    "Task_Add": task_requests.add,
    "Task_AddCollection": task_requests.add_collection,
    "Task_Delete": task_requests.delete,
    "Task_Get": task_requests.show,
    "Task_List": task_requests.listed,
    "Task_ListSubtasks": task_requests.subtasks,
    "Task_Reactivate": task_requests.reactivate,
    "Task_Terminate": task_requests.terminate,
    "Task_Update": task_requests.update,
}


def new_world(settings: Settings, url: str, identity: Identity | None = None) -> World:
    """Return the state of an account that has nothing yet, with what runs its tasks."""
    world = World(settings, url, identity)
    world.runner = Runner(world)
    return world


def answer(world: World, request: Request) -> Response:
    """Do what a request asks for; raise ServiceError where the service would refuse."""
    operation = OPERATIONS.get(request.operation.name)
    if operation is None:
        raise ServiceError(
            "InvalidInput", f"this emulator does not support {request.operation.name}"
        )
    requests.check(request, world.settings.api_versions)
    authentication.check_key(world.settings, request.operation.name, request.headers, request.body)
    with world.lock:
        check_conditions(world, request)
        return operation(world, request)


def check_conditions(world: World, request: Request) -> None:
    """Raise ServiceError where a condition in a header is not met: "If-Match" and "If-None-Match"."""
    match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match is None and none is None:
        return
    path = request.path
    resource: Resource = (
        world.task(path)
        if "task_id" in path
        else world.job(path["job_id"])
        if "job_id" in path
        else world.pool(path["pool_id"])
    )
    tag = resource.etag
    if (match not in (None, "*") and str(match).strip('"') != tag) or (
        none is not None and none.strip('"') in ("*", tag)
    ):
        raise ServiceError("ConditionNotMet", "The condition specified is not met.")
