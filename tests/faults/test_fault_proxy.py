"""The fault proxy does to one request what the name of the fault says, and to no other."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.support.fault_proxy import FAULTS, CountedRequests, Provider, Service, install
from tests.support.http_server import Reply, Server

ERRORS = {"throttled": (429, "Slower"), "error": (500, "Broken"), "expired": (403, "TooOld")}
SERVICE = Service(ERRORS, '{"code": "CODE"}', retry_after=True)
WORDED = {
    "throttled": (429, b'{"code": "Slower"}'),
    "error before": (500, b'{"code": "Broken"}'),
    "error after": (500, b'{"code": "Broken"}'),
    "expired": (403, b'{"code": "TooOld"}'),
}
REACHES = ("error after", "reset after", "hang after", "truncated")
BREAKS: dict[str, type[Exception]] = {
    "reset before": ConnectionResetError,
    "reset after": ConnectionResetError,
    "hang after": TimeoutError,
    "truncated": http.client.IncompleteRead,
}


class Steps:
    def __init__(self) -> None:
        self.labels: list[str] = []

    def step(self, what: str, *paths: str, **more: Any) -> bool:
        self.labels.append(" ".join([what, *paths]))
        return False


def sent(url: str) -> tuple[int, bytes] | type[Exception]:
    """Return what a client gets of *url*: status and body, or the error it raises."""
    try:
        with urllib.request.build_opener().open(url, timeout=0.5) as found:
            return found.status, found.read()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read()
    except OSError as exc:
        cause: Any = getattr(exc, "reason", exc)
        return type(cause)
    except http.client.HTTPException as exc:
        return type(exc)


@pytest.mark.process
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_met_by_one_request_and_the_service_gets_it_or_not(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "")
    steps = Steps()
    with Server(lambda request: Reply(200, {}, request.path.encode())) as service:
        provider = Provider(lambda url: SERVICE, lambda method, url: method + url[-2:])
        install(provider, CountedRequests(steps, 2, fault))

        found = [sent(f"{service.url}/{name}") for name in "abc"]

        reached = [request.path for request in service.asked]
    assert found[::2] == [(200, b"/a"), (200, b"/c")]
    assert found[1] == (WORDED.get(fault) or BREAKS[fault])
    assert reached == ["/a", *(["/b"] if fault in REACHES else []), "/c"]
    assert steps.labels == [f"{what} GET/{name}" for name in "abc" for what in ("send", "sent")]
