"""A key vault on this machine: it gives secrets, and nothing else.

https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret
https://learn.microsoft.com/azure/key-vault/general/rest-error-codes
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from runspec_emulators.azure_services.entra import AUDIENCES, Cloud
from runspec_emulators.azure_services.identity import Tokens
from runspec_emulators.frame.handler import Reply, said
from runspec_emulators.frame.listening import Certificate
from runspec_emulators.frame.server import Endpoint

VERSIONS = ("7.4", "2025-07-01")
SECRET = re.compile(r"/secrets/(?P<name>[0-9A-Za-z-]{1,127})/?")


class Vault(Endpoint):
    """Gives *secrets* to those whose id is among *readers*, over https."""

    def __init__(
        self,
        secrets: Mapping[str, str],
        tokens: Tokens,
        readers: Collection[str],
        certificate: Certificate,
        cloud: Cloud = "public",
        names: tuple[str, ...] = (),
    ) -> None:
        self.audience = AUDIENCES[cloud].vault
        self.secrets, self.tokens = dict(secrets), tokens
        self.readers = {reader.lower() for reader in readers}
        super().__init__(certificate, names)

    def answer(self, target: str, authorization: str) -> tuple[int, Any]:
        """ "401 means that the request is unauthenticated", "403 [...] not have permission"."""
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or not self.tokens.good(token, self.audience):
            return 401, _error("Unauthorized")
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        if claims["oid"].lower() not in self.readers:
            return 403, _error("Forbidden")
        split = urlsplit(target)
        if parse_qs(split.query).get("api-version", [""])[0] not in VERSIONS:
            return 400, _error("BadParameter")
        match = SECRET.fullmatch(split.path)
        if match is None or match["name"] not in self.secrets:
            return 404, _error("SecretNotFound")
        where = f"{self.url}/secrets/{match['name']}/{'0' * 32}"
        return 200, {
            "value": self.secrets[match["name"]],
            "id": where,
            "attributes": {"enabled": True},
        }

    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        status, value = self.answer(target, headers.get("authorization", ""))
        shown = {"Content-Type": "application/json; charset=utf-8"}
        if status == 401:
            challenge = (
                f'Bearer authorization="https://login.windows.net/0", resource="{self.audience}"'
            )
            shown["WWW-Authenticate"] = challenge
        return said(status, value, shown)


def _error(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": f"The vault says {code}."}}
