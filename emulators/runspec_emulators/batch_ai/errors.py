"""The errors of the service: a status, a code and a message, in the form of ARM."""

from __future__ import annotations

from typing import Any

from runspec_emulators.frame.errors import ServiceError

# https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling
FAULTS = {
    "throttle": ServiceError(429, "TooManyRequests", "The request is being throttled."),
    "error-before": ServiceError(
        500, "InternalServerError", "an internal error, before anything was done"
    ),
    "error-after": ServiceError(500, "InternalServerError", "an internal error"),
    "expired": ServiceError(401, "ExpiredAuthenticationToken", "The access token expired."),
}
"""The error of each kind of injected fault."""


def body(error: ServiceError) -> dict[str, Any]:
    """Return the error as ARM answers it: definitions CloudError and CloudErrorBody.

    https://learn.microsoft.com/azure/azure-resource-manager/management/common-deployment-errors
    """
    return {"error": {"code": error.code, "message": error.message, **error.details}}


def refused(message: str, target: str | None = None) -> ServiceError:
    """Return what is answered to a request that cannot be granted as it is."""
    details = {"target": target} if target else {}
    return ServiceError(400, "InvalidRequest", message, **details)


def missing(kind: str, name: str) -> ServiceError:
    return ServiceError(404, "ResourceNotFound", f"The {kind} '{name}' was not found.")


def conflict(message: str) -> ServiceError:
    return ServiceError(409, "Conflict", message)
