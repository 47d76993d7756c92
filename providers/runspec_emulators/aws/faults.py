"""What faults on request answer here."""

from __future__ import annotations

from runspec_emulators.aws.errors import ServiceError

ERRORS: dict[str, tuple[str, str]] = {
    "throttle": ("TooManyRequestsException", "Too Many Requests"),
    "error-before": ("ServerException", "an internal error, before anything was done"),
    "error-after": ("ServerException", "an internal error"),
    "expired": ("ExpiredTokenException", "The security token included in the request is expired"),
}


def error(kind: str) -> ServiceError:
    """Give the answer of a fault that answers with an error."""
    return ServiceError(*ERRORS[kind])
