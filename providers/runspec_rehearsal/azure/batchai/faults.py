"""What faults on request answer here; the faults themselves are those of the other stand-in."""

from __future__ import annotations

from runspec_rehearsal.azure.batchai.errors import ServiceError

# Statuses and codes of ARM.
# https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling
BEFORE: dict[str, tuple[int, str, str]] = {
    "throttle": (429, "TooManyRequests", "The request is being throttled."),
    "error-before": (500, "InternalServerError", "an internal error, before anything was done"),
    "expired": (401, "ExpiredAuthenticationToken", "The access token expired."),
}


def error(kind: str) -> ServiceError:
    """Give the answer of a fault that answers with an error."""
    return ServiceError(*BEFORE.get(kind, (500, "InternalServerError", "an internal error")))
