"""Answers, and operations that take long: 202 and a Location that answers 202 until it is done.

https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from runspec_emulators.batch_ai.api.requests import PAGE, Request
from runspec_emulators.batch_ai.api.routes import VERSION
from runspec_emulators.frame.errors import ServiceError

MOST = 1000


class Response(NamedTuple):
    """The response to a request: *value* as JSON, or no content."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = {}


class Pending(NamedTuple):
    """An operation under way."""

    done: Callable[[], bool]
    result: Callable[[], Response]


class Operations:
    """The operations under way. Guarded by the lock of the world."""

    def __init__(self, url: str, subscription: str) -> None:
        self._base = f"{url}/subscriptions/{subscription}/providers/Microsoft.BatchAI/locations"
        self._pending: dict[str, Pending] = {}

    def answer(self, pending: Pending, retry_after_s: int, location: str = "eastus") -> Response:
        """Return the result where it is there, and otherwise 202 and where it will be."""
        if pending.done():
            return pending.result()
        number = str(uuid.uuid4())
        self._pending[number] = pending
        return Response(202, None, self._headers(location, number, retry_after_s))

    def poll(self, location: str, number: str, retry_after_s: int) -> Response:
        """Answer a Location. Official examples: .../operationresults/GUID."""
        pending = self._pending.get(number)
        if pending is None:
            raise ServiceError(404, "OperationNotFound", f"There is no operation '{number}'.")
        if not pending.done():
            return Response(202, None, self._headers(location, number, retry_after_s))
        return pending.result()

    def _headers(self, location: str, number: str, retry_after_s: int) -> dict[str, str]:
        where = f"{self._base}/{location}/operationresults/{number}?api-version={VERSION}"
        return {"Location": where, "Retry-After": str(retry_after_s)}


def page(url: str, request: Request, values: Sequence[Any]) -> Response:
    """Return one page of a list. maxresults: 1000 at most, and by default."""
    most = int(request.query.get("maxresults", MOST))
    start = int(request.query.get(PAGE, 0))
    page: dict[str, Any] = {"value": list(values[start : start + most])}
    if start + most < len(values):
        query = urlencode({**request.query, PAGE: str(start + most)})
        page["nextLink"] = f"{url}{request.target}?{query}"
    return Response(200, page)
