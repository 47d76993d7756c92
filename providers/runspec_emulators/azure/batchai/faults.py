"""What faults on request answer here."""

from __future__ import annotations

from runspec_emulators.azure.batchai.errors import ServiceError

# Statuses and codes of ARM.
# https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling
ERRORS: dict[str, tuple[int, str, str]] = {
    "throttle": (429, "TooManyRequests", "The request is being throttled."),
    "error-before": (500, "InternalServerError", "an internal error, before anything was done"),
    "error-after": (500, "InternalServerError", "an internal error"),
    "expired": (401, "ExpiredAuthenticationToken", "The access token expired."),
}


def error(kind: str) -> ServiceError:
    """Give the answer of a fault that answers with an error."""
    return ServiceError(*ERRORS[kind])
