"""What the service refuses with: a code, a message, details, and an HTTP status.

https://learn.microsoft.com/en-us/rest/api/batchservice/batch-status-and-error-codes
"""

from __future__ import annotations

from typing import Any

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


class ServiceError(Exception):
    """The service refuses a request, or pretends to have failed."""

    def __init__(self, code: str, message: str, **values: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.values = values
        self.status = STATUS.get(code, 400)

    @property
    def body(self) -> dict[str, Any]:
        """Give what is sent: the model, and what OData adds to an answer."""
        kind = "Microsoft.Azure.Batch.Protocol.Entities.Container.errors/@Element"
        return {"odata.metadata": f"https://batch/$metadata#{kind}", **self.model}

    @property
    def model(self) -> dict[str, Any]:
        """Give BatchError of the service's description."""
        return {
            "code": self.code,
            "message": {"lang": "en-US", "value": self.message},
            "values": [{"key": k, "value": str(v)} for k, v in self.values.items()],
        }


def wrong(name: str, value: Any, reason: str) -> ServiceError:
    """Give the refusal of a property's value."""
    return ServiceError(
        "InvalidPropertyValue",
        "The value provided for one of the properties in the request body is invalid.",
        PropertyName=name,
        PropertyValue=value,
        Reason=reason,
    )
