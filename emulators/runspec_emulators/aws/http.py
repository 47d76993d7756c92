"""HTTP: one handler for both services, the control paths and the metadata of containers and machines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from runspec_emulators import privacy
from runspec_emulators.aws import admin, models, service, signature
from runspec_emulators.aws.batch import task_metadata
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import FAULTS, ServiceError
from runspec_emulators.aws.models import Request
from runspec_emulators.aws.settings import Settings
from runspec_emulators.frame import errors, server
from runspec_emulators.frame.calls import Listener
from runspec_emulators.frame.faults import Faults
from runspec_emulators.frame.handler import Reply, Serving, said

CONTENT_TYPES = {"batch": "application/json", "logs": "application/x-amz-json-1.1"}


def recorded(request: Request) -> dict[str, Any]:
    """Return what is kept of a call: of log events only the number, for there may be millions."""
    events = request.params.get("logEvents")
    if not isinstance(events, list):
        return request.params
    return {**request.params, "logEvents": len(events)}


class Handler(Serving):
    """One connection."""

    server: Listener[World]
    number = "x-amzn-RequestId"
    control_paths = admin.HANDLERS
    fault_errors = FAULTS

    def handle_service(self, body: bytes) -> None:
        world, headers = self.server.world, self.named()
        if self.path.startswith(task_metadata.TASK):
            self.send(said(*task_metadata.of_task(world, self.path)))
            return
        if self.path.startswith(task_metadata.MACHINE):
            status, text = task_metadata.of_machine(world, self.command, self.path, headers)
            self.send(Reply(status, text.encode(), {"Content-Type": "text/plain"}))
            return
        try:
            self.authenticate(headers, body)
            request = models.read(self.command, self.path, headers, body)
        except ServiceError as exc:
            self.send(self.refusal(exc, "logs" if "x-amz-target" in headers else "batch"))
            return
        kept = {"params": recorded(request)}
        self.call(request.service, request.operation, kept, partial(self.done, request))

    def authenticate(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise ServiceError unless the request is signed with the key of this process, by whatever id.

        https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html
        """
        method, target = self.command, self.path
        said, digest = headers.get("x-amz-content-sha256"), hashlib.sha256(body).hexdigest()
        wrong = signature.problem(method, target, headers, lambda _: privacy.KEY, lambda: body)
        if not wrong and said not in (None, digest):
            wrong = "the body is another"
        if wrong:
            there = "authorization" in headers
            name = "InvalidSignatureException" if there else "MissingAuthenticationTokenException"
            raise ServiceError(name, wrong)

    def done(self, request: Request) -> Reply:
        """Carry out the request, and return the reply."""
        share = self.server.world.settings.throttle_logs
        if request.operation == "GetLogEvents" and self.server.faults.throttled(share):
            raise ServiceError("ThrottlingException", "Rate exceeded")
        answer = service.answer(self.server.world, request)
        models.check_answer(request, answer)
        return said(200, answer, typed(request.service))

    def refusal(self, error: errors.ServiceError, service: str) -> Reply:
        """Return an error with its code in a header or in the body, as the protocol has it.

        https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
        """
        headers = typed(service)
        if service == "batch":
            body = {"message": error.message}
            headers["x-amzn-errortype"] = error.code
        else:
            body = {"__type": error.code, "message": error.message}
        return said(error.status, body, headers)


def typed(name: str) -> dict[str, str]:
    return {"Content-Type": CONTENT_TYPES[name]}


class Server(server.Server[World]):
    """A running emulator of both services."""

    def __init__(self, settings: Settings, port: int = 0) -> None:
        """Listen at *port*, or at any free one."""
        listener = Listener[World](port, Handler, Faults(FAULTS, settings.seed))
        listener.names = settings.hosts
        super().__init__(listener, partial(World, settings), World.close)

    def load_lines(self, group: str, stream: str, lines: Iterable[tuple[int, str]]) -> None:
        """Put (milliseconds since 1970, text) into a log stream, which is made where it is not.

        The lines are in order of time. They are seen as the log model in force lets them be.
        """
        self.world.logs.load(group, stream, lines)


def serve(settings: Settings, port: int = 0) -> Server:
    """Start an emulator for `batch` and `logs`; port 0 takes any free one."""
    return Server(settings, port)
