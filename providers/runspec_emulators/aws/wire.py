"""HTTP: one handler for both services, the control paths and the metadata of containers and machines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from runspec_emulators import answering, control
from runspec_emulators.answering import Reply, said
from runspec_emulators.aws import faults, imds, models
from runspec_emulators.aws.control import HANDLERS, METADATA, metadata
from runspec_emulators.aws.errors import ServiceError
from runspec_emulators.aws.models import Request
from runspec_emulators.faults import Fault

if TYPE_CHECKING:
    from runspec_emulators.aws.server import Listener

CONTENT_TYPES = {"batch": "application/json", "logs": "application/x-amz-json-1.1"}


def recorded(request: Request) -> dict[str, Any]:
    """Give what is kept of a call: of log events only the number, for there may be millions."""
    events = request.params.get("logEvents")
    if not isinstance(events, list):
        return request.params
    return {**request.params, "logEvents": len(events)}


class Handler(answering.Serving):
    """One connection."""

    server: Listener
    number = "x-amzn-RequestId"

    def handle_any(self) -> None:
        body = self.body()
        if self.path.startswith(control.PATH):
            self.send(said(*control.answer(HANDLERS, self.server, self.command, self.path, body)))
            return
        if self.path.startswith(METADATA):
            self.send(said(*metadata(self.server, self.path.removeprefix(METADATA))))
            return
        if self.path.startswith(imds.PATH):
            status, text = imds.answer(self.server.world, self.command, self.path, self.named())
            self.send(Reply(status, text.encode(), {"Content-Type": "text/plain"}))
            return
        try:
            request = models.read(self.command, self.path, dict(self.headers.items()), body)
        except ServiceError as exc:
            self.send(refusal(exc, "logs" if "X-Amz-Target" in self.headers else "batch"))
            return
        kept = {"params": recorded(request)}
        self.call(request.service, request.operation, kept, partial(self.done, request))

    do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of http.server

    def done(self, request: Request) -> tuple[Reply, str]:
        """Have the service do what is asked, and say how it went."""
        share = self.server.world.settings.throttle_logs
        try:
            if request.operation == "GetLogEvents" and self.server.faults.throttled(share):
                raise ServiceError("ThrottlingException", "Rate exceeded")
            answer = self.server.world.answer(request)
            models.check_answer(request, answer)
        except ServiceError as exc:
            return refusal(exc, request.service), exc.code
        except models.WrongAnswer as exc:
            wrong = f"the stand-in's answer is none of the service's: {exc}"
            # 501 is one that no client asks again after.
            return said(501, {"message": wrong}, typed(request.service)), wrong
        return said(200, answer, typed(request.service)), "ok"

    def refused(self, fault: Fault, service: str) -> Reply:
        return refusal(faults.error(fault.kind), service)


def typed(service: str) -> dict[str, str]:
    return {"Content-Type": CONTENT_TYPES[service]}


def refusal(error: ServiceError, service: str) -> Reply:
    """Give an error as the protocol of the service has it: the code in a header, or in the body.

    https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
    """
    if service == "batch":
        body = {"message": error.message}
        headers = {**typed(service), "x-amzn-errortype": error.code}
        return said(error.status, body, headers)
    body = {"__type": error.code, "message": error.message}
    return said(error.status, body, typed(service))
