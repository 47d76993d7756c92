"""The errors of the service: a code, a message, details, and an HTTP status.

https://learn.microsoft.com/en-us/rest/api/batchservice/batch-status-and-error-codes
"""

from __future__ import annotations

from typing import Any

from runspec_emulators.frame import errors

STATUS = {
    "ConditionNotMet": 412,
    "UpdateConditionNotMet": 412,
    "AuthenticationFailed": 403,
    "InvalidRange": 416,
    "RequestBodyTooLarge": 413,
    "RequestEntityTooLarge": 413,
    "TooManyRequests": 429,
    "InternalError": 500,
    "ServerBusy": 503,
    **dict.fromkeys(
        (
            "FileNotFound",
            "JobNotFound",
            "NodeNotFound",
            "PoolNotFound",
            "ResourceNotFound",
            "TaskNotFound",
        ),
        404,
    ),
    **dict.fromkeys(
        (
            "JobBeingDeleted",
            "JobBeingTerminated",
            "JobCompleted",
            "JobDisabled",
            "JobExists",
            "JobNotActive",
            "JobPreparationTaskNotSpecified",
            "NodeBeingCreated",
            "NodeBeingStarted",
            "NodeStateUnusable",
            "OperationInvalidForCurrentState",
            "PoolBeingDeleted",
            "PoolBeingResized",
            "OperationNotValidOnNode",
            "OperationNotValidOnPool",
            "PoolExists",
            "TaskCompleted",
            "TaskExists",
            "TaskFilesCleanedup",
            "TaskFilesUnavailable",
            "TaskIdSameAsJobPreparationTask",
            "TaskNotCompleted",
            "TaskSucceeded",
        ),
        409,
    ),
    # https://learn.microsoft.com/rest/api/batchservice/batch-status-and-error-codes
    "TooManyEnableAutoScaleRequests": 503,
}


class ServiceError(errors.ServiceError):
    """The service refuses a request, or pretends to have failed."""

    def __init__(self, code: str, message: str, **values: Any) -> None:
        super().__init__(STATUS.get(code, 400), code, message, **values)


# 429 and 503 come with Retry-After: https://learn.microsoft.com/en-us/azure/batch/error-handling
FAULTS = {
    "throttle": ServiceError(
        "TooManyRequests", "Too many requests were sent in a given amount of time."
    ),
    "busy": ServiceError(
        "ServerBusy", "The server is currently unable to receive requests. Please retry."
    ),
    "error-before": ServiceError(
        "InternalError", "Server encountered an internal error. Please try again."
    ),
    "error-after": ServiceError(
        "InternalError", "Server encountered an internal error. Please try again."
    ),
    "expired": ServiceError("AuthenticationFailed", "Server failed to authenticate the request."),
}
"""The error of each kind of injected fault."""


def body(error: errors.ServiceError) -> dict[str, Any]:
    """Return what is sent: the model, and what OData adds to an answer."""
    kind = "Microsoft.Azure.Batch.Protocol.Entities.Container.errors/@Element"
    return {"odata.metadata": f"https://batch/$metadata#{kind}", **model(error)}


def model(error: errors.ServiceError) -> dict[str, Any]:
    """Return BatchError of the service's description."""
    return {
        "code": error.code,
        "message": {"lang": "en-US", "value": error.message},
        "values": [{"key": k, "value": str(v)} for k, v in error.details.items()],
    }


def wrong(name: str, value: Any, reason: str) -> ServiceError:
    """Return the refusal of a property's value."""
    return ServiceError(
        "InvalidPropertyValue",
        "The value provided for one of the properties in the request body is invalid.",
        PropertyName=name,
        PropertyValue=value,
        Reason=reason,
    )
