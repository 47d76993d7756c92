"""Verify the shared key and bearer tokens of requests, and issue tokens at an endpoint.

https://learn.microsoft.com/en-us/rest/api/batchservice/authenticate-requests-to-the-azure-batch-service
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.settings import Settings
from runspec_emulators.azure_batch.world import World
from runspec_emulators.azure_services.entra import AUDIENCES
from runspec_emulators.azure_services.identity import Tokens
from runspec_emulators.frame import calls

SIGNED = (
    "content-encoding content-language content-length content-md5 content-type date "
    "if-modified-since if-match if-none-match if-unmodified-since range"
).split()
SKEW_S = 15 * 60  # "within 15 minutes of the current UTC time"
TOKEN_PATH = re.compile(r"/[^/]+/oauth2/v2\.0/token")


def refused(detail: str) -> ServiceError:
    return ServiceError(
        "AuthenticationFailed",
        "Server failed to authenticate the request. Make sure the value of Authorization header is "
        "formed correctly including the signature.",
        AuthenticationErrorDetail=detail,
    )


def text_to_sign(
    account: str, method: str, target: str, headers: Mapping[str, str], small: bool = True
) -> str:
    """Return what a request's signature is made of; names of *headers* are in small letters.

    The page has names of the query in small letters (*small*), the SDK signs them as it sends them,
    `timeOut` among them. "Append the resource's encoded URI path".
    """
    lines = [method]
    for name in SIGNED:
        value = headers.get(name, "")
        empty = name == "content-length" and value == "0" and method in ("GET", "HEAD")
        lines.append("" if empty else value)
    ours = sorted((k, v.strip()) for k, v in headers.items() if k.startswith("ocp-"))
    lines += [f"{name}:{value}" for name, value in ours]
    split = urlsplit(target)
    lines.append(f"/{account}{split.path}")
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(split.query, keep_blank_values=True):
        query.setdefault(name.lower() if small else name, []).append(value)
    lines += [f"{name}:{','.join(sorted(values))}" for name, values in sorted(query.items())]
    return "\n".join(lines)


def signature(key: str, text: str) -> str:
    made = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256)
    return base64.b64encode(made.digest()).decode()


def check_key(settings: Settings, operation: str, headers: Mapping[str, str], body: Any) -> None:
    """Raise ServiceError where a shared key is not enough: then only a token is accepted.

    "If the mode is UserSubscription, clients must use Microsoft Entra ID":
    https://learn.microsoft.com/rest/api/batchmanagement/batch-account/create. Pools in a subnet or with an image of
    a gallery need it as well: https://learn.microsoft.com/azure/batch/batch-virtual-network#prerequisites,
    https://learn.microsoft.com/azure/batch/batch-sig-images#prerequisites. Users reported how the service says so:
    https://github.com/MicrosoftDocs/azure-docs/issues/51092, https://github.com/Azure/aztk/pull/240
    """
    if not headers.get("authorization", "").startswith("SharedKey"):
        return
    not_allowed = "The specified type of authentication SharedKey is not allowed when"
    if settings.pool_allocation == "UserSubscription":
        raise refused(f"{not_allowed} the pool allocation mode is UserSubscription.")
    if operation != "Pool_Add" or not isinstance(body, Mapping):
        return
    linked = {
        "Compute": ("virtualMachineConfiguration", "imageReference", "virtualMachineImageId"),
        "Network": ("networkConfiguration", "subnetId"),
    }
    for kind, path in linked.items():
        value: Any = body
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value:
            raise refused(f"{not_allowed} external resources of type {kind} are linked.")


class Authenticator:
    """Lets in who has a right signature or a token that is still good."""

    def __init__(self, settings: Settings, tokens: Tokens | None = None) -> None:
        self._settings = settings
        self._audiences = AUDIENCES[settings.cloud]
        self._tokens = tokens
        self._lock = threading.Lock()
        self._given: dict[str, float] = {}

    def check(self, method: str, target: str, headers: Mapping[str, str]) -> None:
        """Raise ServiceError unless the request has a valid signature or token."""
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        if not scheme:
            error = refused("The Authorization header is missing.")
            error.status = 401
            raise error
        if scheme == "SharedKey":
            self._check_signature(method, target, headers, rest)
        elif scheme == "Bearer":
            self._check_token(rest)
        else:
            raise refused(f"The scheme {scheme} is not known.")

    def _check_signature(
        self, method: str, target: str, headers: Mapping[str, str], given: str
    ) -> None:
        account, _, signed = given.partition(":")
        if account != self._settings.account or not self._settings.key:
            raise refused("The specified account does not exist or takes no shared key.")
        date = headers.get("ocp-date") or headers.get("date")
        if date is None:
            raise refused("Neither ocp-date nor Date is there.")
        try:
            away_s = abs(parsedate_to_datetime(date).timestamp() - time.time())
        except ValueError as exc:
            raise refused(f"The date {date!r} cannot be read.") from exc
        if away_s > SKEW_S:
            raise refused(f"The date {date!r} is more than 15 minutes away.")
        texts = [text_to_sign(account, method, target, headers, small) for small in (True, False)]
        made = [signature(self._settings.key, text) for text in texts]
        if not any(hmac.compare_digest(key, signed) for key in made):
            raise refused("The MAC signature found in the HTTP request is not the computed one.")

    def check_manager(self, headers: Mapping[str, str]) -> None:
        """Raise ServiceError for who may not ask the Resource Manager, which takes tokens alone.

        https://learn.microsoft.com/rest/api/azure/#create-the-request
        """
        scheme, _, token = headers.get("authorization", "").partition(" ")
        tokens, names = self._tokens, self._audiences.managers
        good = tokens is not None and any(tokens.good(token, name) for name in names)
        if scheme != "Bearer" or not good:
            error = ServiceError("InvalidAuthenticationToken", "The access token is invalid.")
            error.status = 401
            raise error

    def _check_token(self, token: str) -> None:
        if token in self._settings.tokens:
            return
        if self._tokens and self._tokens.good(token, self._audiences.batch):
            return
        with self._lock:
            ends = self._given.get(token)
        if ends is None or time.time() > ends:
            error = refused("The specified token is not valid, or has expired.")
            error.status = 401
            raise error

    def answer(self, body: bytes) -> tuple[int, dict[str, object]]:
        """Return a token for a client's secret, as the loopback endpoint for tokens.

        https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-client-creds-grant-flow
        """
        given = {k: v[0] for k, v in parse_qs(body.decode()).items()}
        secret = self._settings.clients.get(given.get("client_id", ""))
        scope = given.get("scope", "").rstrip("/").removesuffix(".default").rstrip("/") + "/"
        if given.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        if secret is None or not hmac.compare_digest(secret, given.get("client_secret", "")):
            return 401, {"error": "invalid_client"}
        if scope != self._audiences.batch:
            return 400, {"error": "invalid_scope"}
        return 200, {
            "token_type": "Bearer",
            "expires_in": int(self._settings.token_s),
            "access_token": self.give(),
        }

    def give(self) -> str:
        """Make a token that looks like a JWT and is good for `token_s`."""
        ends = time.time() + self._settings.token_s
        head = {"typ": "JWT", "alg": "none"}
        claims = {"aud": self._audiences.batch, "exp": int(ends)}
        parts = [
            base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=") for p in (head, claims)
        ]
        token = b".".join(parts).decode() + "." + secrets.token_urlsafe(32)
        with self._lock:
            self._given[token] = ends
        return token


class Listener(calls.Listener[World]):
    """The socket of the service, with the check of who may send requests."""

    authenticator: Authenticator
