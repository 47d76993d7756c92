"""The login of a cloud: it gives tokens to programs that know their secret.

https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.frame.handler import Reply, said
from runspec_emulators.frame.server import Endpoint

OPENID = re.compile(r"/(?P<tenant>[^/]+)/v2\.0/\.well-known/openid-configuration")
TOKEN = re.compile(r"/(?P<tenant>[^/]+)/oauth2/v2\.0/token")
DISCOVERY = "/common/discovery/instance"


class Entra(Endpoint):
    """Known at *host*. *clients* are secrets by the ids of programs; *identity* signs what they get."""

    def __init__(
        self, host: str, identity: Identity, clients: Mapping[str, str], cloud: Cloud = "public"
    ) -> None:
        self.host, self.identity, self.clients = host, identity, dict(clients)
        known = AUDIENCES[cloud]
        self.audiences = {
            url.rstrip("/") for url in (known.batch, *known.managers, known.vault, STORAGE)
        }
        super().__init__(names=(host,))

    @property
    def tenant(self) -> str:
        return self.identity.tokens.tenant

    def look(self, target: str) -> tuple[int, Any]:
        """Answer what a client asks before it logs in: where to, and whether this is a login at all."""
        path = urlsplit(target).path
        base = f"https://{self.host}/{self.tenant}"
        if path == DISCOVERY:
            where = f"{base}/v2.0/.well-known/openid-configuration"
            return 200, {"api-version": "1.1", "tenant_discovery_endpoint": where}
        match = OPENID.fullmatch(path)
        if match is None or match["tenant"] != self.tenant:
            return 400, _error("invalid_tenant", 90002)
        return 200, {
            "issuer": f"{base}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/oauth2/v2.0/token",
        }

    def give(self, target: str, body: bytes) -> tuple[int, Any]:
        """Return a token: "scope: The value passed [...] should be the resource identifier [...] with .default"."""
        match = TOKEN.fullmatch(urlsplit(target).path)
        given = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        secret = self.clients.get(given.get("client_id", ""))
        if match is None or match["tenant"] != self.tenant:
            return 400, _error("invalid_request", 90002)
        if given.get("grant_type") != "client_credentials":
            return 400, _error("unsupported_grant_type", 70003)
        if secret is None or not hmac.compare_digest(secret, given.get("client_secret", "")):
            return 401, _error("invalid_client", 7000215)
        resource, dot, rest = given.get("scope", "").partition(" ")[0].rpartition("/.default")
        if not dot or rest or resource.rstrip("/") not in self.audiences:
            return 400, _error("invalid_resource", 500011)
        token, ends = self.identity.token(resource)
        lasts_s = ends - int(time.time())
        return 200, {"token_type": "Bearer", "expires_in": lasts_s, "access_token": token}

    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        status, value = self.give(target, body) if method == "POST" else self.look(target)
        return said(status, value, {"Content-Type": "application/json; charset=utf-8"})


def _error(code: str, number: int) -> dict[str, Any]:
    return {"error": code, "error_description": f"AADSTS{number}: {code}", "error_codes": [number]}


# The audiences of tokens in each cloud of Azure. A service accepts only tokens for itself.
#
# https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure
# https://learn.microsoft.com/azure/china/resources-developer-guide
# https://learn.microsoft.com/azure/batch/batch-aad-auth (of Azure Batch, and of the Resource Manager)


Cloud = Literal["public", "usgovernment", "china"]
STORAGE = "https://storage.azure.com"  # the same address in all clouds


class Audiences(NamedTuple):
    """The resources that a login gives tokens for; the Resource Manager has several names."""

    batch: str
    managers: tuple[str, ...]
    vault: str


AUDIENCES: Mapping[Cloud, Audiences] = {
    "public": Audiences(
        "https://batch.core.windows.net/",
        ("https://management.azure.com", "https://management.core.windows.net"),
        "https://vault.azure.net",
    ),
    "usgovernment": Audiences(
        "https://batch.core.usgovcloudapi.net/",
        ("https://management.usgovcloudapi.net", "https://management.core.usgovcloudapi.net"),
        "https://vault.usgovcloudapi.net",
    ),
    "china": Audiences(
        "https://batch.chinacloudapi.cn/",
        ("https://management.chinacloudapi.cn", "https://management.core.chinacloudapi.cn"),
        "https://vault.azure.cn",
    ),
}
