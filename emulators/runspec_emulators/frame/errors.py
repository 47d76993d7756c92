"""The error with which an emulator refuses a request."""

from __future__ import annotations

from typing import Any


class ServiceError(Exception):
    """The service refuses a request, or the emulator pretends that it has failed."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, details
