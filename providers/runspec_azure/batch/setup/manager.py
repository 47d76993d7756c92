"""Sends requests to the Azure Resource Manager: one function for each kind of answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from azure.core import PipelineClient
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import BearerTokenCredentialPolicy
from azure.core.rest import HttpRequest

from runspec_azure.errors import code_of, status_of, translated
from runspec_azure.session import clouds, transport
from runspec_azure.session.clients import refuse_plain
from runspec_azure.session.transport import TokenHosts
from runspec_jobs.provider import NoAnswer, RemoteError

# The login is of another tenant or cloud, where all that a setup has made would look as if it were gone.
# Its status is 404, as https://github.com/Azure/azure-cli/pull/30164 shows.
ELSEWHERE = "SubscriptionNotFound"


class Manager:
    """A client that sends each request once."""

    def __init__(self, options: Any) -> None:
        cloud = clouds.of(options)
        self.url = (options.arm_url or cloud.manager_url).rstrip("/")
        refuse_plain("arm_url", self.url)
        self._login = transport.find_login(cloud)
        self._scope = cloud.manager_scope
        policies = [TokenHosts(options), BearerTokenCredentialPolicy(self._login, self._scope)]
        opened = transport.opened(connection_timeout=10, read_timeout=60)
        self._client: Any = PipelineClient(self.url, policies=policies, transport=opened)

    def read_person(self) -> str:
        """Return the object id of whoever is logged in, which is a claim of the token.

        https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
        """
        with translated("the login"):
            token = self._login.get_token(self._scope).token
            claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return str(claims["oid"])

    def send(
        self,
        method: str,
        path: str,
        version: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of an answer; {} if it is empty. Raises the errors of `Client.call`.

        An empty answer to GET is none: an empty resource would look as if somebody else had made it, and an empty list
        as if nothing were left to protect.
        """
        asked = {"api-version": version, **(query or {})}
        request = HttpRequest(method, self.url + path, params=asked, json=body)
        action = f"{method} {path.rpartition('/providers/')[2] or path}"
        with translated(action):
            response = self._client.send_request(request)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            content = response.json() if response.content or method == "GET" else {}
        if not isinstance(content, dict):
            raise NoAnswer(f"{action}: the reply is no JSON object")
        return response.status_code, content

    def get(self, path: str, version: str) -> dict[str, Any] | None:
        """Return a resource; None if there is none. Raises RemoteError if the login does not know the subscription."""
        try:
            return self.send("GET", path, version)[1]
        except RemoteError as exc:
            if status_of(exc) == 404 and code_of(exc) != ELSEWHERE:
                return None
            raise

    def list(
        self, path: str, version: str, needed: Sequence[str] = ("id", "name")
    ) -> list[Mapping[str, Any]]:
        """Return the rows of all pages of a list. Raises NoAnswer if there is none, or a row lacks what is *needed*."""
        rows: list[Mapping[str, Any]] = []
        query: dict[str, str] = {}
        while True:
            answer = self.send("GET", path, version, None, query)[1]
            page = answer.get("value")
            if not isinstance(page, list) or not all(
                row.get(key) for row in page for key in needed
            ):
                raise NoAnswer(f"GET {path}: the reply lacks a list, or names in it")
            rows += page
            following = urlsplit(str(answer.get("nextLink") or ""))
            query = dict(parse_qsl(following.query))
            query.pop("api-version", None)
            if not query:
                return rows
