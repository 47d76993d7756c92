"""The paths by which tests control an emulator, which the service does not have."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from runspec_emulators import privacy
from runspec_emulators.frame.calls import Listener
from runspec_emulators.frame.listening import Certificate, connect

PATH = "/_rehearsal/"
Handlers = Mapping[tuple[str, str], Callable[[Any, Any], Any]]
"""The handler of each method and path; it gets the listener and the JSON of the request."""


def answer(
    own: Handlers, server: Listener[Any], method: str, path: str, body: bytes
) -> tuple[int, Any]:
    """Return the status and the JSON that a control path is answered with.

    *own* are the paths of one emulator, beside those that all have.
    """
    handlers = {**COMMON, **own}
    handler = handlers.get((method, path.removeprefix(PATH)))
    if handler is None:
        return 404, {"message": f"there are {sorted(' '.join(key) for key in handlers)}"}
    try:
        return 200, handler(server, json.loads(body or b"null"))
    except (ValueError, TypeError, KeyError) as exc:
        return 400, {"message": f"{type(exc).__name__}: {exc}"}


def put_faults(server: Listener[Any], given: Any) -> Any:
    server.faults.put(given)
    return {}


def delete_faults(server: Listener[Any], _given: Any) -> Any:
    server.faults.put([])
    return {}


def calls(server: Listener[Any], _given: Any) -> Any:
    return server.calls.all()


COMMON = {
    ("PUT", "faults"): put_faults,
    ("DELETE", "faults"): delete_faults,
    ("GET", "calls"): calls,
}


def tell(
    url: str, method: str, what: str, value: Any = None, certificate: Certificate | None = None
) -> Any:
    """Send a request to a control path of the emulator at *url*; return its answer."""
    with contextlib.closing(connect(url.partition("//")[2], 30, certificate)) as link:
        headers = {privacy.HEADER: privacy.KEY, "Content-Type": "application/json"}
        link.request(method, f"{PATH}{what}", json.dumps(value), headers)
        answer = link.getresponse()
        content = json.loads(answer.read())
    assert answer.status == 200, content
    return content
