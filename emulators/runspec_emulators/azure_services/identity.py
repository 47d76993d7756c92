"""Issue tokens on loopback, in the ways of App Service and of machines, and verify them.

Both ways are plain http, at the service too, so azure-identity takes them here as they are:
https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
import uuid
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from runspec_emulators.frame.handler import Reply, said
from runspec_emulators.frame.server import Endpoint

APP, MACHINE = "/msi/token", "/metadata/identity/oauth2/token"
APP_VERSION, MACHINE_VERSION = "2019-08-01", "2018-02-01"


class Tokens:
    """Signs tokens with its own key, and verifies them.

    https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
    """

    def __init__(self, lasts_s: float = 3600.0) -> None:
        self.lasts_s = lasts_s
        self.tenant, self.person = str(uuid.uuid4()), str(uuid.uuid4())
        self._key = secrets.token_bytes(32)

    def give(self, resource: str, who: str | None = None) -> tuple[str, int]:
        """Return a token for *resource*, and the time at which it expires."""
        now = int(time.time())
        ends = now + int(self.lasts_s)
        claims = {
            "aud": resource,
            "iss": f"https://sts.windows.net/{self.tenant}/",
            "iat": now,
            "nbf": now,
            "exp": ends,
            "oid": who or self.person,
            "tid": self.tenant,
            "jti": secrets.token_hex(8),
        }
        text = ".".join(_written(part) for part in ({"typ": "JWT", "alg": "HS256"}, claims))
        return f"{text}.{self._signature(text)}", ends

    def good(self, token: str, audience: str) -> bool:
        """Return whether *token* was issued here for *audience* and has not expired."""
        text, _, signed = token.rpartition(".")
        if not hmac.compare_digest(signed, self._signature(text)):
            return False
        claims = json.loads(base64.urlsafe_b64decode(text.partition(".")[2] + "=="))
        same = str(claims["aud"]).rstrip("/") == audience.rstrip("/")
        return same and bool(time.time() < claims["exp"])

    def _signature(self, text: str) -> str:
        made = hmac.digest(self._key, text.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def _written(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


class Asked(NamedTuple):
    """A token that was issued: for which resource, and for which identity of a machine, if for one."""

    resource: str
    identity: str
    token: str


class Identity(Endpoint):
    """An identity endpoint on this machine. What it gives out, emulators verify by `tokens`."""

    def __init__(self, lasts_s: float = 3600.0) -> None:
        self.tokens = Tokens(lasts_s)
        self.asked: list[Asked] = []
        self.header = secrets.token_hex(16)
        self._machines: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()
        super().__init__()

    @property
    def env(self) -> Mapping[str, str]:
        """The variables by which azure-identity finds App Service's endpoint."""
        return {
            "IDENTITY_ENDPOINT": f"{self.url}{APP}",
            "IDENTITY_HEADER": self.header,
        }

    def machine(self, identities: Collection[str]) -> Mapping[str, str]:
        """Return the variable by which programs on a machine with *identities* find its endpoint.

        A real machine has it at a link-local address, and azure-identity reads the same variable.
        """
        name = secrets.token_hex(8)
        with self._lock:
            self._machines[name] = frozenset(identity.lower() for identity in identities)
        return {"AZURE_POD_IDENTITY_AUTHORITY_HOST": f"{self.url}/{name}"}

    def token(self, resource: str, identity: str = "") -> tuple[str, int]:
        token, ends = self.tokens.give(resource, identity or None)
        with self._lock:
            self.asked.append(Asked(resource, identity, token))
        return token, ends

    def answer(self, target: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        """Return the status and the JSON of an answer."""
        split = urlsplit(target)
        given = {key: values[0] for key, values in parse_qs(split.query).items()}
        machine, _, _ = split.path.removeprefix("/").partition("/")
        if split.path == APP:
            return self._app(given, headers)
        if split.path == f"/{machine}{MACHINE}" and machine in self._machines:
            return self._machine(given, headers, self._machines[machine])
        return 404, {"error": "not found"}

    def _app(self, given: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, Any]:
        """ "expires_on: The timespan when the access token expires [...] seconds from 1970"."""
        if not hmac.compare_digest(headers.get("x-identity-header", ""), self.header):
            return 401, {"error": "the header is another"}
        if given.get("api-version") != APP_VERSION or "resource" not in given:
            return 400, {"error": "bad request"}
        token, ends = self.token(given["resource"])
        return 200, {
            **_token_response(token, ends, given["resource"]),
            "client_id": self.tokens.person,
        }

    def _machine(
        self, given: Mapping[str, str], headers: Mapping[str, str], there: Collection[str]
    ) -> tuple[int, Any]:
        """ "Metadata: true [...] a mitigation against server side request forgery".

        A machine with more than one identity has to be told which: "msi_res_id".
        """
        if headers.get("metadata", "").lower() != "true":
            return 400, {"error": "invalid_request", "error_description": "no Metadata header"}
        if given.get("api-version") != MACHINE_VERSION or "resource" not in given:
            return 400, {"error": "invalid_request"}
        which = given.get("msi_res_id", "").lower() or (
            next(iter(there)) if len(there) == 1 else ""
        )
        if which not in there:
            return 400, {"error": "invalid_request", "error_description": "Identity not found"}
        token, ends = self.token(given["resource"], which)
        expires_in = str(max(0, ends - int(time.time())))
        return 200, {**_token_response(token, ends, given["resource"]), "expires_in": expires_in}

    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        return said(*self.answer(target, headers), {"Content-Type": "application/json"})


def _token_response(token: str, ends: int, resource: str) -> dict[str, str]:
    return {
        "access_token": token,
        "expires_on": str(ends),
        "resource": resource,
        "token_type": "Bearer",
    }
