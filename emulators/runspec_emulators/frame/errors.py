"""What a service refuses, and what no service may answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class ServiceError(Exception):
    """The service refuses a request, or the emulator pretends that it has failed."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, details


# Responses of an emulator, checked before they are sent: a client that relied on a wrong one would fail.


MANY = 40
"""Items of a list: of more, the first and the last are checked. A page of a log has 10,000."""


class InvalidResponse(Exception):
    """The emulator was about to send a response that the service would not."""


def sample(items: Sequence[Any]) -> Sequence[Any]:
    """Return the items of a list that are checked."""
    return items if len(items) <= MANY else [*items[: MANY // 2], *items[-MANY // 2 :]]


def raise_problems(operation: str, problems: Iterable[str]) -> None:
    """Raise InvalidResponse if there are problems."""
    if problems_found := list(problems):
        raise InvalidResponse(f"{operation}: {'; '.join(problems_found)}")
