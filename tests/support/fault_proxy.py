"""An HTTP proxy that counts the requests of this process and has one of them go wrong.

It stands between the process and the services, so that it sees what any library sends, also one that is no Python
(obstore), and breaks the connection itself. Clients go through it by `http_proxy`, which botocore, requests (and so
azure-core), urllib and obstore all obey: URLs and signatures stay as they are. What differs between services is a
table: `Service`.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from tests.support.http_server import (
    PATIENCE_S,
    RESET,
    SILENT,
    ReceivedRequest,
    Reply,
    Server,
)

HANG_S = 1.0  # how long a client waits for an answer that never comes, where one is to hang
OF_ONE_HOP = (
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
)
Send = Callable[[], Reply]


def forward(request: ReceivedRequest, host: str, target: str) -> Reply:
    """Send *request* to *host* as one for *target*, and return the reply."""
    headers = {k: v for k, v in request.written.items() if k.lower() not in OF_ONE_HOP}
    if request.body or "content-length" in request.headers:
        headers["Content-Length"] = str(len(request.body))
    link = http.client.HTTPConnection(host, timeout=PATIENCE_S)
    with contextlib.closing(link):
        link.request(request.method, target, request.body, headers)
        found = link.getresponse()
        body = found.read()
        kept = {k: v for k, v in found.getheaders() if k.lower() not in OF_ONE_HOP}
        if request.method == "HEAD" and (length := found.getheader("Content-Length")):
            kept["Content-Length"] = length  # of the body that GET has
        return Reply(found.status, kept, body)


# What goes wrong


class Fault(NamedTuple):
    """Whether the service carries the request out, and what its client gets: RESET, SILENT, HALF or a kind of error."""

    carried_out: bool
    outcome: Reply | str


HALF = "half"
FAULTS: Mapping[str, Fault] = {
    "throttled": Fault(False, "throttled"),
    "error before": Fault(False, "error"),
    "error after": Fault(True, "error"),
    "reset before": Fault(False, RESET),
    "reset after": Fault(True, RESET),
    "hang after": Fault(True, SILENT),
    "truncated": Fault(True, HALF),
    "expired": Fault(False, "expired"),
}


def no_errors(kind: str) -> Reply:
    raise NotImplementedError(f"no service here words an error that is {kind}")


def broken(fault: Fault, send: Send, error: Callable[[str], Reply] = no_errors) -> Reply:
    """Return what a client gets whose request meets *fault*; *error* words an error of a kind."""
    reply = send() if fault.carried_out else None
    if isinstance(fault.outcome, Reply):
        return fault.outcome
    if fault.outcome != HALF:
        return error(fault.outcome)
    assert reply is not None
    return reply._replace(sent=len(reply.body) // 2) if reply.body else reply


class Service(NamedTuple):
    """How a service words its errors: the status and the code of each kind, and the text around the code."""

    errors: Mapping[str, tuple[int, str]]
    text: str  # with CODE in it
    code_header: str | None = None
    retry_after: bool = False  # whether it says so when it throttles

    def error(self, kind: str) -> Reply:
        status, code = self.errors[kind]
        is_xml = self.text.startswith("<")
        headers = {"Content-Type": "application/xml" if is_xml else "application/json"}
        if self.code_header is not None:
            headers[self.code_header] = code
        if self.retry_after and kind == "throttled":
            headers["Retry-After"] = "1"
        if status == 401:
            headers["WWW-Authenticate"] = 'Bearer error="invalid_token"'
        return Reply(status, headers, self.text.replace("CODE", code).encode())


class Provider(NamedTuple):
    """The services of a provider: which one a URL is of, and a name for a request that is the same in every run.

    Where the URL does not say it, *read* gives both from the request, or None for that of the URL.
    """

    service: Callable[[str], Service]
    name: Callable[[str, str], str]
    read: Callable[[ReceivedRequest], tuple[Service, str] | None] = lambda _: None


# Which request meets it


class Steps(Protocol):
    """Whatever writes down what a process does; see `tests.faults.boundaries`."""

    def step(self, what: str, *paths: str, **more: Any) -> bool: ...


class CountedRequests:
    """Counts requests, from 1; number *at* is to meet *fault*.

    Each is a step before it is sent, and another when it was answered.
    """

    def __init__(self, steps: Steps, at: int | None, fault: str | None) -> None:
        self.steps, self.at, self.fault = steps, at, fault
        self.count = 0
        self._lock = threading.Lock()  # libraries send several at once

    @contextlib.contextmanager
    def one(self, name: str, found: Mapping[str, Any] | None = None) -> Iterator[str | None]:
        """Count the request *name* that is sent meanwhile, and give the fault that it meets.

        What stands in *found* when it was answered is written down with that step.
        """
        with self._lock:
            self.steps.step("send", name)
            self.count += 1
            fault = self.fault if self.count == self.at else None
        yield fault
        with self._lock:
            self.steps.step("sent", name, **(found or {}))


def install(provider: Provider, requests: CountedRequests) -> None:
    """Have all HTTP requests of this process to services of *provider* counted from now on."""

    def answering(request: ReceivedRequest) -> Reply:
        url = urlsplit(request.target)
        target = url._replace(scheme="", netloc="").geturl()
        service, name = provider.read(request) or (
            provider.service(request.target),
            provider.name(request.method, request.target),
        )

        def send() -> Reply:
            return forward(request, url.netloc, target)

        with requests.one(name) as fault:
            return send() if fault is None else broken(FAULTS[fault], send, service.error)

    os.environ["http_proxy"] = Server(answering).start().url


def hurry_obstore(module: ModuleType, store: str) -> None:
    """Have obstore wait for HANG_S at the most where *module* opens a *store* of its own."""
    real = getattr(module, store)

    def opened(*names: str, client_options: Any, **how: Any) -> Any:
        options = {**client_options, "timeout": timedelta(seconds=HANG_S)}
        return real(*names, client_options=options, **how)

    setattr(module, store, opened)
