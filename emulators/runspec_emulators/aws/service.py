"""The operations of AWS Batch and CloudWatch Logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runspec_emulators.aws import limits, log_operations, models
from runspec_emulators.aws.batch import (
    definitions,
    describe,
    environments,
    listing,
    submit,
    tagging,
)
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import ServiceError, refused
from runspec_emulators.aws.log_store import Logs
from runspec_emulators.aws.models import Request

BATCH: dict[str, Callable[[World, dict[str, Any]], dict[str, Any]]] = {
    "CancelJob": submit.cancel,
    "CreateComputeEnvironment": environments.create_environment,
    "CreateJobQueue": environments.create_queue,
    "DeleteComputeEnvironment": environments.delete_environment,
    "DeleteJobQueue": environments.delete_queue,
    "DeregisterJobDefinition": definitions.deregister,
    "DescribeComputeEnvironments": environments.describe_environments,
    "DescribeJobDefinitions": definitions.describe,
    "DescribeJobQueues": environments.describe_queues,
    "DescribeJobs": describe.describe,
    "ListJobs": listing.listed,
    "ListTagsForResource": tagging.tags_listed,
    "RegisterJobDefinition": definitions.register,
    "SubmitJob": submit.submit,
    "TagResource": tagging.tag,
    "TerminateJob": submit.terminate,
    "TerminateJobs": submit.terminate_several,
    "UntagResource": tagging.untag,
    "UpdateComputeEnvironment": environments.update_environment,
    "UpdateJobQueue": environments.update_queue,
}

LOGS: dict[str, Callable[[Logs, dict[str, Any]], dict[str, Any]]] = {
    "CreateLogGroup": log_operations.create_group,
    "CreateLogStream": log_operations.create_stream,
    "DeleteLogGroup": log_operations.delete_group,
    "DeleteLogStream": log_operations.delete_stream,
    "DescribeLogGroups": log_operations.describe_groups,
    "DescribeLogStreams": log_operations.describe_streams,
    "FilterLogEvents": log_operations.filter_events,
    "GetLogEvents": log_operations.get_events,
    "ListTagsForResource": log_operations.list_tags,
    "PutLogEvents": log_operations.put_events,
    "PutRetentionPolicy": log_operations.put_retention,
}


def answer(world: World, request: Request) -> dict[str, Any]:
    """Carry out a request. Raise ServiceError if the service would refuse it."""
    models.check(request)
    missing = f"this emulator does not support {request.operation}"
    if request.service == "logs":
        if request.operation not in LOGS:
            raise ServiceError("InvalidParameterException", missing)
        return LOGS[request.operation](world.logs, request.params)
    limits.check(request, world.settings)
    if request.operation not in BATCH:
        raise refused(missing)
    with world.lock:
        return BATCH[request.operation](world, request.params)
