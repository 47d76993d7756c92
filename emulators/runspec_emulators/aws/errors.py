"""The errors of the services: a code, a message and an HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_emulators.frame import errors

# https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html and the error shapes of
# the service models; the logs service answers 400 for all but ServiceUnavailableException.
STATUS = {
    "ExpiredTokenException": 403,
    "InvalidSignatureException": 403,
    "MissingAuthenticationTokenException": 403,
    "ServerException": 500,
    "ServiceUnavailableException": 500,
    "TooManyRequestsException": 429,
}


class ServiceError(errors.ServiceError):
    """The service refuses a request, or pretends to have failed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(STATUS.get(code, 400), code, message)


FAULTS = {
    "throttle": ServiceError("TooManyRequestsException", "Too Many Requests"),
    "error-before": ServiceError("ServerException", "an internal error, before anything was done"),
    "error-after": ServiceError("ServerException", "an internal error"),
    "expired": ServiceError(
        "ExpiredTokenException", "The security token included in the request is expired"
    ),
}
"""The error of each kind of injected fault."""


def refused(message: str) -> ServiceError:
    """Return the error of AWS Batch for a request that it refuses. Error shape ClientException."""
    return ServiceError("ClientException", message)


def check_supported(params: Mapping[str, Any], *members: str) -> None:
    """Refuse *members* of a request, which the service supports and the emulator does not."""
    given = [member for member in members if member in params]
    if given:
        raise refused(f"this emulator does not support {', '.join(given)}")
