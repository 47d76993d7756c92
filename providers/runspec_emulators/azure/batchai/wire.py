"""HTTP: one handler for ARM, the links to files, tokens and the control paths."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from runspec_emulators import answering, control
from runspec_emulators.answering import Reply, said
from runspec_emulators.azure.batchai import answer_models, faults, links, rules
from runspec_emulators.azure.batchai.answer_models import WrongAnswer
from runspec_emulators.azure.batchai.answers import Answer
from runspec_emulators.azure.batchai.control import HANDLERS
from runspec_emulators.azure.batchai.describe import public
from runspec_emulators.azure.batchai.errors import ServiceError
from runspec_emulators.azure.batchai.rules import Request
from runspec_emulators.faults import Fault

if TYPE_CHECKING:
    from runspec_emulators.azure.batchai.server import Listener

RESULT = re.compile(
    r"/subscriptions/[^/]+/providers/Microsoft\.BatchAI/locations/(?P<location>[^/]+)"
    r"/operationresults/(?P<number>[^/]+)",
    re.IGNORECASE,
)
IDENTITY = "/_identity/token"


class Handler(answering.Serving):
    """One connection."""

    server: Listener
    number = "x-ms-request-id"

    def handle_any(self) -> None:
        body = self.body()
        if self.path.startswith(control.PATH):
            self.send(said(*control.answer(HANDLERS, self.server, self.command, self.path, body)))
        elif self.path.startswith(links.PATH):
            self.serve(Request("storage", "GetFile", {}, {}, None, self.path))
        elif urlsplit(self.path).path == IDENTITY:
            self.send(self.identity())
        else:
            self.arm(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - of http.server

    def arm(self, body: bytes) -> None:
        polled = RESULT.fullmatch(urlsplit(self.path).path)
        try:
            if polled and self.command == "GET":
                found = polled.groupdict()
                request = Request("batchai", "OperationResult", found, {}, None, self.path)
            else:
                request = rules.read(self.command, self.path, body)
        except ServiceError as exc:
            self.send(refusal(exc))
            return
        self.serve(request)

    def serve(self, request: Request) -> None:
        kept = {"path": request.path, "query": request.query, "body": public(request.body)}
        self.call(request.service, request.operation, kept, partial(self.done, request))

    def done(self, request: Request) -> tuple[Reply, str]:
        """Have the service do what is asked, and say how it went."""
        world = self.server.world
        if request.service == "storage":
            ranged = self.headers.get("x-ms-range") or self.headers.get("Range")
            busy = self.server.faults.throttled(world.settings.throttle_files)
            file = links.BUSY if busy else world.links.answer(request.target, ranged)
            return Reply(*file), str(file.status)
        try:
            world.authenticate(self.headers.get("Authorization"))
            if request.operation == "OperationResult":
                with world.lock:
                    retry = world.settings.retry_after_s
                    answer = world.operations.poll(**request.path, retry_after_s=retry)
            else:
                answer = world.answer(request)
            answer_models.check(request, answer)
        except ServiceError as exc:
            return refusal(exc), exc.code
        except WrongAnswer as exc:
            # 501 is one that no client asks again after.
            words = f"the stand-in's answer is none of the service's: {exc}"
            return refusal(ServiceError(501, "StandInIsWrong", words)), words
        return told(answer), "ok"

    def refused(self, fault: Fault, service: str) -> Reply:
        return refusal(faults.error(fault.kind))

    def identity(self) -> Reply:
        """Give a token, as the machines of App Service get theirs: azure-identity asks there.

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


def told(answer: Answer) -> Reply:
    body = b"" if answer.value is None else json.dumps(answer.value).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", **answer.headers}
    return Reply(answer.status, body, headers if body else dict(answer.headers))


def refusal(error: ServiceError) -> Reply:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if error.status == 429:
        headers["Retry-After"] = "0"
    return said(error.status, error.body(), headers)
