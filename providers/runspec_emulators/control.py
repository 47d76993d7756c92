"""The paths of a stand-in that are the rehearsal's own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from runspec_emulators.answering import Listener
from runspec_emulators.listening import Certificate, connect

PATH = "/_rehearsal/"
Server = TypeVar("Server", bound=Listener)


def answer(
    own: Mapping[tuple[str, str], Callable[[Server, Any], Any]],
    server: Server,
    method: str,
    path: str,
    body: bytes,
) -> tuple[int, Any]:
    """Give the status and the JSON that a control path is answered with; *own*: beside those of all."""
    handlers = {**COMMON, **own}
    handler = handlers.get((method, path.removeprefix(PATH)))
    if handler is None:
        return 404, {"message": f"there are {sorted(' '.join(key) for key in handlers)}"}
    try:
        return 200, handler(server, json.loads(body or b"null"))
    except (ValueError, TypeError, KeyError) as exc:
        return 400, {"message": f"{type(exc).__name__}: {exc}"}


def put_faults(server: Listener, given: Any) -> Any:
    server.faults.put(given)
    return {}


def delete_faults(server: Listener, _given: Any) -> Any:
    server.faults.put([])
    return {}


def calls(server: Listener, _given: Any) -> Any:
    return server.calls.all()


COMMON = {
    ("PUT", "faults"): put_faults,
    ("DELETE", "faults"): delete_faults,
    ("GET", "calls"): calls,
}


def tell(
    url: str, method: str, what: str, value: Any = None, certificate: Certificate | None = None
) -> Any:
    """Tell the stand-in at *url* something, and give what it answers."""
    with contextlib.closing(connect(url.partition("//")[2], 30, certificate)) as link:
        link.request(method, f"{PATH}{what}", json.dumps(value))
        answer = link.getresponse()
        found = json.loads(answer.read())
    assert answer.status == 200, found
    return found
