"""What faults on request answer here."""

from __future__ import annotations

from runspec_emulators.azure.batch.errors import ServiceError

# 429 and 503 come with Retry-After: https://learn.microsoft.com/en-us/azure/batch/error-handling
ERRORS: dict[str, tuple[str, str]] = {
    "throttle": ("TooManyRequests", "Too many requests were sent in a given amount of time."),
    "busy": ("ServerBusy", "The server is currently unable to receive requests. Please retry."),
    "error-before": ("InternalError", "Server encountered an internal error. Please try again."),
    "error-after": ("InternalError", "Server encountered an internal error. Please try again."),
    "expired": ("AuthenticationFailed", "Server failed to authenticate the request."),
}


def error(kind: str) -> ServiceError:
    """Give the answer of a fault that answers with an error."""
    return ServiceError(*ERRORS[kind])
