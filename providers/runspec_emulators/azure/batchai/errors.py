"""What the service refuses with: a status, a code and a message, as ARM words them."""

from __future__ import annotations

from typing import Any


class ServiceError(Exception):
    """The service refuses a request, or pretends to have failed."""

    def __init__(self, status: int, code: str, message: str, target: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.target = target

    def body(self) -> dict[str, Any]:
        """Give the error as ARM answers it: definitions CloudError and CloudErrorBody.

        https://learn.microsoft.com/azure/azure-resource-manager/management/common-deployment-errors
        """
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.target:
            error["target"] = self.target
        return {"error": error}


def refused(message: str, target: str | None = None) -> ServiceError:
    """Give what is answered to a request that cannot be granted as it is."""
    return ServiceError(400, "InvalidRequest", message, target)


def missing(kind: str, name: str) -> ServiceError:
    return ServiceError(404, "ResourceNotFound", f"The {kind} '{name}' was not found.")


def conflict(message: str) -> ServiceError:
    return ServiceError(409, "Conflict", message)
