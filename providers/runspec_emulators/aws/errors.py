"""What the services refuse with: a code, a message and an HTTP status."""

from __future__ import annotations

# https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html and the error shapes of
# the service models; the logs service answers 400 for all but ServiceUnavailableException.
STATUS = {
    "ExpiredTokenException": 403,
    "ServerException": 500,
    "ServiceUnavailableException": 500,
    "TooManyRequestsException": 429,
}


class ServiceError(Exception):
    """The service refuses a request, or pretends to have failed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = STATUS.get(code, 400)


def refused(message: str) -> ServiceError:
    """Give what batch answers to a request that cannot be granted. Error shape ClientException."""
    return ServiceError("ClientException", message)
