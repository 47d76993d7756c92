"""HTTP: one handler for the service, for the endpoint of tokens and for the control paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from runspec_emulators import answering, control
from runspec_emulators.answering import Reply, said
from runspec_emulators.azure.batch import (
    answer_models,
    auth,
    faults,
    management,
    metadata,
    requests,
)
from runspec_emulators.azure.batch.answer_models import WrongAnswer
from runspec_emulators.azure.batch.answers import Answer
from runspec_emulators.azure.batch.control import HANDLERS
from runspec_emulators.azure.batch.errors import ServiceError
from runspec_emulators.azure.batch.requests import Request
from runspec_emulators.faults import Fault

if TYPE_CHECKING:
    from runspec_emulators.azure.batch.server import Listener

JSON = "application/json;odata=minimalmetadata"


class Handler(answering.Serving):
    """One connection."""

    server: Listener
    number = "request-id"

    def handle_any(self) -> None:
        body = self.body()
        path = urlsplit(self.path).path
        if path.startswith(control.PATH):
            self.send(said(*control.answer(HANDLERS, self.server, self.command, path, body)))
            return
        if path.startswith(metadata.PATH):
            own = self.named()
            status, kind, text = metadata.answer(self.server.world, self.command, self.path, own)
            self.send(Reply(status, text, {"Content-Type": kind}))
            return
        if auth.TOKEN_PATH.fullmatch(path) and self.command == "POST":
            self.send(said(*self.server.doorman.answer(body), {"Content-Type": "application/json"}))
            return
        headers = self.named()
        if path.lower().startswith(management.PATH):
            self.manage(headers, body)
            return
        try:
            self.server.doorman.check(self.command, self.path, headers)
            request = requests.read(self.command, self.path, headers, body)
        except ServiceError as exc:
            self.send(refusal(exc))
            return
        self.serve("batch", request.operation.name, request.body, partial(self.done, request))

    def manage(self, headers: Mapping[str, str], body: bytes) -> None:
        """Answer in the Resource Manager's place."""
        try:
            self.server.doorman.check_manager(headers)
            request = management.read(self.command, self.path, headers, body)
        except ServiceError as exc:
            self.send(refusal(exc, value=management.told(exc)))
            return
        self.serve("arm", request.name, request.body, partial(self.managed, request))

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = handle_any  # noqa: N815 - names of http.server

    def serve(
        self, service: str, name: str, body: Any, done: Callable[[], tuple[Reply, str]]
    ) -> None:
        split = urlsplit(self.path)
        kept = {"method": self.command, "path": split.path, "query": split.query, "body": body}
        self.call(service, name, kept, done)

    def done(self, request: Request) -> tuple[Reply, str]:
        """Have the service do what is asked, and say how it went."""
        try:
            answer = self.server.world.answer(request)
            answer_models.check(request, answer)
        except ServiceError as exc:
            return refusal(exc), exc.code
        except WrongAnswer as exc:
            return wrong(exc)
        return replied(answer), "ok"

    def refused(self, fault: Fault, service: str) -> Reply:
        return refusal(faults.error(fault.kind), fault.seconds)

    def managed(self, request: management.Request) -> tuple[Reply, str]:
        world = self.server.world
        try:
            with world.lock:
                answer = management.answer(world, request)
            answer_models.check_managed(request.name, answer)
        except ServiceError as exc:
            return refusal(exc, value=management.told(exc)), exc.code
        except WrongAnswer as exc:
            return wrong(exc)
        return replied(answer), "ok"


def wrong(found: WrongAnswer) -> tuple[Reply, str]:
    """Give the error that says what is wrong with an answer: 501, after which no client asks again."""
    words = f"the stand-in's answer is none of the service's: {found}"
    error = ServiceError("StandInIsWrong", words)
    error.status = 501
    return refusal(error), words


def replied(answer: Answer) -> Reply:
    if answer.value is None:
        return Reply(answer.status, b"", dict(answer.headers))
    if isinstance(answer.value, bytes):
        return Reply(answer.status, answer.value, dict(answer.headers))
    headers = {"Content-Type": JSON, **answer.headers}
    return said(answer.status, answer.value, headers)


def refusal(error: ServiceError, wait_s: float | None = None, value: Any = None) -> Reply:
    """Give an error; 429 and 503 say when to come back.

    https://learn.microsoft.com/en-us/azure/batch/error-handling
    """
    headers = {"Content-Type": JSON}
    if wait_s is not None and error.status in (429, 503):
        headers["Retry-After"] = str(int(min(wait_s, 1)))
    if error.status == 401:
        headers["WWW-Authenticate"] = (
            'Bearer authorization_uri="", resource_id="https://batch.core.windows.net/"'
        )
    return said(error.status, value or error.body, headers)
