"""HTTP: one handler for ARM, the links to files, tokens and the control paths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs, urlsplit

from runspec_emulators.batch_ai import service
from runspec_emulators.batch_ai.admin import HANDLERS
from runspec_emulators.batch_ai.api import requests, response_check
from runspec_emulators.batch_ai.api.descriptions import public
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response
from runspec_emulators.batch_ai.errors import FAULTS, body
from runspec_emulators.batch_ai.storage import signed_links
from runspec_emulators.batch_ai.world import World
from runspec_emulators.frame.calls import Listener
from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.frame.handler import Reply, Serving, said

RESULT = re.compile(
    r"/subscriptions/[^/]+/providers/Microsoft\.BatchAI/locations/(?P<location>[^/]+)"
    r"/operationresults/(?P<number>[^/]+)",
    re.IGNORECASE,
)
IDENTITY = "/_identity/token"


class Handler(Serving):
    """One connection."""

    server: Listener[World]
    number = "x-ms-request-id"
    control_paths = HANDLERS
    fault_errors = FAULTS

    def handle_service(self, body: bytes) -> None:
        if self.path.startswith(signed_links.PATH):
            self.serve(Request("storage", "GetFile", {}, {}, None, self.path))
        elif urlsplit(self.path).path == IDENTITY:
            self.send(self.identity())
        else:
            self.arm(body)

    def arm(self, body: bytes) -> None:
        polled = RESULT.fullmatch(urlsplit(self.path).path)
        try:
            if polled and self.command == "GET":
                groups = polled.groupdict()
                request = Request("batchai", "OperationResult", groups, {}, None, self.path)
            else:
                request = requests.read(self.command, self.path, body)
        except ServiceError as exc:
            self.send(self.refusal(exc, "batchai"))
            return
        self.serve(request)

    def serve(self, request: Request) -> None:
        kept = {"path": request.path, "query": request.query, "body": public(request.body)}
        self.call(request.service, request.operation, kept, partial(self.done, request))

    def done(self, request: Request) -> Reply:
        """Carry out the request, and return the reply."""
        world = self.server.world
        if request.service == "storage":
            ranged = self.headers.get("x-ms-range") or self.headers.get("Range")
            busy = self.server.faults.throttled(world.settings.throttle_files)
            return Reply(
                *(signed_links.BUSY if busy else world.links.answer(request.target, ranged))
            )
        world.authenticate(self.headers.get("Authorization"))
        if request.operation == "OperationResult":
            with world.lock:
                retry = world.settings.retry_after_s
                answer = world.operations.poll(**request.path, retry_after_s=retry)
        else:
            answer = service.answer(world, request)
        response_check.check(request, answer)
        return reply_of(answer)

    def outcome(self, service: str, done: Callable[[], Reply]) -> tuple[Reply, str]:
        """Return what the frame does; of files, the record has the status."""
        reply, outcome = super().outcome(service, done)
        return reply, str(reply.status) if service == "storage" else outcome

    def refusal(self, error: ServiceError, service: str) -> Reply:
        headers = {"Content-Type": "application/json; charset=utf-8"}
        if error.status == 429:
            headers["Retry-After"] = "0"
        return said(error.status, body(error), headers)

    def identity(self) -> Reply:
        """Return a token, as the machines of App Service get theirs: azure-identity asks there.

        https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
        """
        world = self.server.world
        if self.headers.get("X-IDENTITY-HEADER") != world.identity:
            return Reply(401, b'{"error": "the secret is another"}', {})
        resource = parse_qs(urlsplit(self.path).query).get("resource", [""])[0]
        with world.lock:
            token, end = world.new_token()
        value = {
            "access_token": token,
            "expires_on": str(int(end)),
            "resource": resource,
            "token_type": "Bearer",
        }
        return said(200, value, {"Content-Type": "application/json"})


def reply_of(answer: Response) -> Reply:
    body = b"" if answer.value is None else json.dumps(answer.value).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", **answer.headers}
    return Reply(answer.status, body, headers if body else dict(answer.headers))
