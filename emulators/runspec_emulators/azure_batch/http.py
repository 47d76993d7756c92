"""HTTP: one handler for the service, for the endpoint of tokens and for the control paths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from runspec_emulators.azure_batch import authentication, service
from runspec_emulators.azure_batch.account import management, resources
from runspec_emulators.azure_batch.admin import HANDLERS
from runspec_emulators.azure_batch.api import requests, response_check
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.authentication import Listener
from runspec_emulators.azure_batch.errors import FAULTS, ServiceError, body
from runspec_emulators.azure_batch.nodes import metadata
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.frame import errors
from runspec_emulators.frame.faults import Fault
from runspec_emulators.frame.handler import Reply, Serving, said

JSON = "application/json;odata=minimalmetadata"


class Handler(Serving):
    """One connection."""

    server: Listener
    number = "request-id"
    control_paths = HANDLERS
    fault_errors = FAULTS
    form_paths = authentication.TOKEN_PATH

    def handle_service(self, body: bytes) -> None:
        path = urlsplit(self.path).path
        if path.startswith(metadata.PATH):
            caller = self.named()
            status, kind, text = metadata.answer(self.server.world, self.command, self.path, caller)
            self.send(Reply(status, text, {"Content-Type": kind}))
            return
        if authentication.TOKEN_PATH.fullmatch(path) and self.command == "POST":
            self.send(
                said(*self.server.authenticator.answer(body), {"Content-Type": "application/json"})
            )
            return
        headers = self.named()
        if f"{path.lower()}/".startswith(management.PATH):
            self.manage(headers, body)
            return
        try:
            self.server.authenticator.check(self.command, self.path, headers)
            request = requests.read(self.command, self.path, headers, body)
        except ServiceError as exc:
            self.send(self.refusal(exc, "batch"))
            return
        self.serve("batch", request.operation.name, request.body, partial(self.done, request))

    def manage(self, headers: Mapping[str, str], body: bytes) -> None:
        """Answer in the Resource Manager's place."""
        try:
            self.server.authenticator.check_manager(headers)
            if self.manages_all():
                self.serve("arm", "Resource", self.read_json(body), partial(self.made, body))
                return
            request = management.read(self.command, self.path, headers, body)
        except ServiceError as exc:
            self.send(self.refusal(exc, "arm"))
            return
        self.serve("arm", request.name, request.body, partial(self.managed, request))

    def manages_all(self) -> bool:
        """Return whether the request is for a resource that an empty subscription lacks, such as the account."""
        path = urlsplit(self.path).path
        is_pool = re.search("/batchaccounts/[^/]+/pools/", path, re.IGNORECASE) is not None
        return self.server.world.settings.empty and not is_pool

    def read_json(self, body: bytes) -> Any:
        try:
            return json.loads(body) if body else None
        except ValueError as exc:
            raise management.refused("InvalidRequestContent", "The content is not JSON.") from exc

    def made(self, body: bytes) -> Reply:
        split = urlsplit(self.path)
        world, query = self.server.world, dict(parse_qsl(split.query))
        with world.lock:
            return replied(
                resources.answer(world, self.command, split.path, query, self.read_json(body))
            )

    def serve(self, service: str, name: str, body: Any, done: Callable[[], Reply]) -> None:
        split = urlsplit(self.path)
        kept = {"method": self.command, "path": split.path, "query": split.query, "body": body}
        self.call(service, name, kept, done)

    def done(self, request: Request) -> Reply:
        """Carry out a request to the service, and return the reply."""
        answer = service.answer(self.server.world, request)
        response_check.check(request, answer)
        return replied(answer)

    def managed(self, request: management.Request) -> Reply:
        """Carry out a request to the Resource Manager, and return the reply."""
        world = self.server.world
        with world.lock:
            answer = management.answer(world, request)
        response_check.check_managed(request.name, answer)
        return replied(answer)

    def refused(self, fault: Fault, service: str) -> Reply:
        """Return the error of a fault; 429 and 503 say when to come back.

        https://learn.microsoft.com/en-us/azure/batch/error-handling
        """
        reply = self.refusal(FAULTS[fault.kind], "batch")
        if reply.status not in (429, 503):
            return reply
        wait = {"Retry-After": str(int(min(fault.seconds, 1)))}
        return reply._replace(headers={**reply.headers, **wait})

    def refusal(self, error: errors.ServiceError, service: str) -> Reply:
        headers = {"Content-Type": JSON}
        if error.status == 401:
            headers["WWW-Authenticate"] = (
                'Bearer authorization_uri="", resource_id="https://batch.core.windows.net/"'
            )
        value = management.cloud_error(error) if service == "arm" else body(error)
        return said(error.status, value, headers)


def replied(answer: Response) -> Reply:
    if answer.value is None:
        return Reply(answer.status, b"", dict(answer.headers))
    if isinstance(answer.value, bytes):
        return Reply(answer.status, answer.value, dict(answer.headers))
    headers = {"Content-Type": JSON, **answer.headers}
    return said(answer.status, answer.value, headers)
