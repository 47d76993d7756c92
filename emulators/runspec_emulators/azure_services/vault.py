"""A key vault on this machine: its secrets are set, read, listed, deleted and purged.

https://learn.microsoft.com/rest/api/keyvault/secrets/operation-groups
https://learn.microsoft.com/azure/key-vault/general/rest-error-codes
https://learn.microsoft.com/azure/key-vault/general/soft-delete-overview
"""

from __future__ import annotations

import base64
import json
import re
import secrets as random
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from runspec_emulators.azure_services.entra import AUDIENCES, Cloud
from runspec_emulators.azure_services.identity import Tokens
from runspec_emulators.frame.handler import Reply, said
from runspec_emulators.frame.listening import Certificate
from runspec_emulators.frame.server import Endpoint

VERSIONS = ("7.4", "2025-07-01")
PATH = re.compile(r"/(?P<kind>secrets|deletedsecrets)(/(?P<name>[0-9A-Za-z-]{1,127}))?/?")
LONGEST_VALUE = 25_600  # "secret values [...] with a maximum size of 25k bytes each"
PAGE = 25  # "maxresults: [...] If not specified the service will return up to 25 results."


class Refused(Exception):
    """A request that the vault answers with an error."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code = status, code
        self.message = message or f"The vault says {code}."


@dataclass
class Secret:
    """A secret: its newest value, and whether it is deleted, which takes as many looks as *leaving* says."""

    name: str
    value: str
    tags: Mapping[str, str] = field(default_factory=dict)
    version: str = "0" * 32
    deleted: bool = False
    leaving: int = 0


class Vault(Endpoint):
    """Gives *secrets* to those whose id is among *readers*; *writers* may do all else.

    A deletion is over after *deletion_looks* requests for it. With *purge_protection*, nothing is purged.
    """

    def __init__(
        self,
        secrets: Mapping[str, str],
        tokens: Tokens,
        readers: Collection[str],
        certificate: Certificate | None,
        cloud: Cloud = "public",
        names: tuple[str, ...] = (),
        *,
        writers: Collection[str] = (),
        purge_protection: bool = False,
        deletion_looks: int = 2,
    ) -> None:
        self.audience = AUDIENCES[cloud].vault
        self.tokens = tokens
        self.secrets = {name.lower(): Secret(name, value) for name, value in secrets.items()}
        self.readers = {reader.lower() for reader in readers}
        self.writers = {writer.lower() for writer in writers}
        self.purge_protection, self.deletion_looks = purge_protection, deletion_looks
        self._lock = threading.Lock()
        super().__init__(certificate, names)

    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        shown = {"Content-Type": "application/json; charset=utf-8"}
        try:
            with self._lock:
                status, value = self._answer(method, target, headers.get("authorization", ""), body)
        except Refused as exc:
            status, value = exc.status, {"error": {"code": exc.code, "message": exc.message}}
            if status == 401:
                login = "https://login.windows.net/0"
                challenge = f'Bearer authorization="{login}", resource="{self.audience}"'
                shown["WWW-Authenticate"] = challenge
        return Reply(204, b"") if status == 204 else said(status, value, shown)

    def _answer(self, method: str, target: str, authorization: str, body: bytes) -> tuple[int, Any]:
        """Names have no case: "The value you provide may be copied globally [...] case-insensitive"."""
        who = self._identify(authorization)
        split = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        match = PATH.fullmatch(split.path)
        kind, name = (match["kind"], match["name"]) if match else ("", None)
        reads = method == "GET" and kind == "secrets" and name is not None
        if who not in (self.readers | self.writers if reads else self.writers):
            raise Refused(403, "Forbidden")
        if query.get("api-version") not in VERSIONS:
            raise Refused(400, "BadParameter")
        if method == "GET" and kind and name is None:
            return 200, self._list(query, deleted=kind == "deletedsecrets")
        if not name:
            raise Refused(404, "SecretNotFound")
        if method == "PUT" and kind == "secrets":
            return 200, self._set(name, body)
        if kind == "deletedsecrets":
            return self._answer_deleted(method, name)
        found = self.secrets.get(name.lower())
        if found is None or found.deleted:
            raise Refused(404, "SecretNotFound")
        if method == "GET":
            return 200, self._show(found) | {"value": found.value}
        if method != "DELETE":
            raise Refused(405, "MethodNotAllowed")
        found.deleted, found.leaving = True, self.deletion_looks
        return 200, self._show(found)

    def _identify(self, authorization: str) -> str:
        """ "401 means that the request is unauthenticated", "403 [...] not have permission"."""
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or not self.tokens.good(token, self.audience):
            raise Refused(401, "Unauthorized")
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return str(claims["oid"]).lower()

    def _set(self, name: str, body: bytes) -> dict[str, Any]:
        """https://learn.microsoft.com/rest/api/keyvault/secrets/set-secret/set-secret"""
        given = json.loads(body)
        value = given.get("value")
        if not isinstance(value, str) or len(value.encode()) > LONGEST_VALUE:
            raise Refused(400, "BadParameter")
        known = self.secrets.get(name.lower())
        if known is not None and known.deleted:
            raise Refused(409, "Conflict", f"Secret {name} is currently in a deleted state.")
        made = Secret(name, given["value"], given.get("tags") or {}, random.token_hex(16))
        self.secrets[name.lower()] = made
        return self._show(made) | {"value": made.value}

    def _answer_deleted(self, method: str, name: str) -> tuple[int, Any]:
        """Until a deletion is over, the secret is nowhere to be seen, and cannot be purged.

        https://github.com/Azure/azure-sdk-for-net/issues/7199
        """
        found = self.secrets.get(name.lower())
        if found is None or not found.deleted:
            raise Refused(404, "SecretNotFound")
        found.leaving -= found.leaving > 0
        if method == "GET":
            if found.leaving:
                raise Refused(404, "SecretNotFound")
            return 200, self._show(found)
        if method != "DELETE":
            raise Refused(405, "MethodNotAllowed")
        if found.leaving:
            raise Refused(409, "Conflict", "Secret is currently being deleted.")
        if self.purge_protection:
            raise Refused(403, "Forbidden")
        del self.secrets[name.lower()]
        return 204, None

    def _list(self, query: Mapping[str, str], *, deleted: bool) -> dict[str, Any]:
        """https://learn.microsoft.com/rest/api/keyvault/secrets/get-secrets/get-secrets"""
        there = [one for one in self.secrets.values() if one.deleted == deleted and not one.leaving]
        begin = int(query.get("$skiptoken", "page+0").removeprefix("page+"))
        end = begin + PAGE
        rows = [{**self._show(one), "id": self._link(one)} for one in there[begin:end]]
        version = f"api-version={query['api-version']}"
        kind = "deletedsecrets" if deleted else "secrets"
        following = f"{self.url}/{kind}?{version}&$skiptoken=page%2B{end}"
        return {"value": rows, "nextLink": following if len(there) > end else None}

    def _link(self, one: Secret) -> str:
        return f"{self.url}/secrets/{one.name}"

    def _show(self, one: Secret) -> dict[str, Any]:
        """Return a secret without its value; what is deleted has a link to recover it."""
        level = "Recoverable" if self.purge_protection else "Recoverable+Purgeable"
        shown: dict[str, Any] = {
            "id": f"{self._link(one)}/{one.version}",
            "attributes": {"enabled": True, "recoveryLevel": level, "recoverableDays": 90},
            "tags": dict(one.tags),
        }
        if one.deleted:
            shown["recoveryId"] = f"{self.url}/deletedsecrets/{one.name}"
        return shown
