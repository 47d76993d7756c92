"""The client of a key vault: it stores secrets of runs, and deletes them for good. It reads no value.

https://learn.microsoft.com/rest/api/keyvault/secrets/operation-groups
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from azure.core import PipelineClient
from azure.core.credentials import TokenCredential
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import BearerTokenCredentialPolicy
from azure.core.rest import HttpRequest

from runspec_azure.errors import Hints, status_of, translated
from runspec_azure.session import clouds, transport
from runspec_azure.session.transport import TokenHosts
from runspec_azure.timing import CLOCK, Clock
from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError

Seen = TypeVar("Seen")

VERSION = "7.4"
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)  # replies
RETRIES = 6  # of requests that only read
# https://learn.microsoft.com/azure/key-vault/general/rest-error-codes
HINTS = Hints(
    "log in to the tenant of the vault (az login --tenant TENANT); then repeat the command, which continues",
    "assign the role Key Vault Secrets Officer on the vault to the login, or an access policy with Get, List, Set, "
    "Delete and Purge; a firewall of the vault must permit this machine",
)
# https://learn.microsoft.com/azure/key-vault/secrets/about-secrets
MOST_BYTES = 25_000
TOO_LONG = "a key vault keeps at most 25 KB of a value"
# Whether a deleted secret may be purged: https://learn.microsoft.com/rest/api/keyvault/secrets/delete-secret/delete-secret#deletionrecoverylevel
PURGEABLE = "Purgeable"
# A deletion goes on for some seconds after its answer, and until then the secret can be neither seen nor purged:
# https://github.com/Azure/azure-sdk-for-net/issues/7199, https://github.com/Azure/azure-powershell/issues/24094
# It took 10 s in a recording, with 404 for the deleted secret, and "ObjectIsBeingDeleted" (409) for a purge:
# https://github.com/Azure/azure-sdk-for-js/tree/17f19b1/sdk/keyvault/keyvault-secrets/recordings/node
GONE_S = 300.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0


class KeyVault:
    """A client that repeats requests that read, and those of a deletion that goes on; all others are sent once."""

    def __init__(self, options: Any, login: TokenCredential, clock: Clock = CLOCK) -> None:
        cloud = clouds.of(options)
        self.url, self.clock = str(options.vault).rstrip("/"), clock

        def open_client(*first: Any) -> Any:
            bearer = BearerTokenCredentialPolicy(login, f"{cloud.vault_audience}/.default")
            opened = transport.opened(connection_timeout=10, read_timeout=60)
            policies = [*first, TokenHosts(options), bearer]
            return PipelineClient(self.url, policies=policies, transport=opened)

        self._writer = open_client()
        retries = transport.BoundedRetries(retry_total=RETRIES, retry_backoff_factor=0.2)
        self._reader = open_client(retries)

    def set(self, name: str, body: Mapping[str, Any]) -> None:
        """Store a secret, or a new version of it. The answer has its value, and is not read."""
        if any("\ud800" <= letter <= "\udfff" for letter in body["value"]):
            raise RemoteError(f"the secret {name} is not UTF-8, which a key vault cannot keep")
        try:
            self._send("PUT", f"/secrets/{name}", dict(body))
        except RemoteError as exc:
            if status_of(exc) != 400 or len(body["value"].encode()) <= MOST_BYTES:
                raise
            raise RemoteError(exc.message, TOO_LONG) from exc.__cause__

    def delete(self, name: str) -> None:
        """Delete a secret, and purge it where the vault permits that: until then it could be recovered and read."""
        level: str | None
        try:
            level = _read_level(self._send("DELETE", f"/secrets/{name}"), name)
        except RemoteError as exc:
            if status_of(exc) not in (404, 409):
                raise
            level = self._read_deleted(name)
            if level is None and not self._is_leaving(name):
                return
        if level is None or PURGEABLE in level:
            level = self._await(lambda: self._read_deleted(name), name)
        # With purge protection, the vault forgets the secret after its days of retention.
        if PURGEABLE in level:
            self._await(lambda: self._purge(name), name)

    def list(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield the names and tags of all secrets, and of deleted ones that can be purged.

        https://learn.microsoft.com/rest/api/keyvault/secrets/get-secrets/get-secrets
        https://learn.microsoft.com/rest/api/keyvault/secrets/get-deleted-secrets/get-deleted-secrets
        """
        for kind in ("secrets", "deletedsecrets"):
            try:
                for row in self._list_rows(kind):
                    if kind == "secrets" or PURGEABLE in row["attributes"]["recoveryLevel"]:
                        name = row["id"].rpartition("/secrets/")[2].split("/")[0]
                        yield name, dict(row.get("tags") or {})
            except UNREADABLE as exc:
                raise NoAnswer(f"list the secrets of {self.url}: the reply was cut off") from exc

    def _list_rows(self, kind: str) -> Iterator[Any]:
        path: str | None = f"/{kind}?api-version={VERSION}"
        while path:
            answer = self._request("GET", path).json()
            yield from answer["value"] or ()
            # As it is written, because a decoded mark of a page is another one.
            query = urlsplit(answer.get("nextLink") or "").query
            path = f"/{kind}?{query}" if query else None

    def _read_deleted(self, name: str) -> str | None:
        """Return the recovery level of a secret whose deletion is over, or None."""
        try:
            return _read_level(self._send("GET", f"/deletedsecrets/{name}"), name)
        except RemoteError as exc:
            if status_of(exc) == 404:
                return None
            raise

    def _is_leaving(self, name: str) -> bool:
        """Return whether a secret that cannot be seen is being deleted, and not gone: its purge tells them apart.

        A purge that the vault forbids leaves that open, and purge protection is the usual reason.
        """
        try:
            return not self._purge(name)
        except CredentialsError as exc:
            if status_of(exc) != 403:
                raise
            return False

    def _purge(self, name: str) -> bool:
        """Purge a deleted secret, and return whether the vault has accepted that, or no longer has it."""
        try:
            self._send("DELETE", f"/deletedsecrets/{name}")
        except RemoteError as exc:
            if status_of(exc) == 409:  # "Secret is currently being deleted."
                return False
            if status_of(exc) != 404:
                raise
        return True

    def _await(self, look: Callable[[], Seen | None], name: str) -> Seen:
        """Return what *look* returns as soon as that is true."""
        pause_s, end = FIRST_PAUSE_S, self.clock.monotonic() + GONE_S
        while not (seen := look()):
            if self.clock.monotonic() > end:
                raise NoAnswer(f"the secret {name} is not deleted after {GONE_S:.0f} s")
            self.clock.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.5)
        return seen

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        return self._request(method, f"{path}?api-version={VERSION}", body)

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        request = HttpRequest(method, self.url + path, json=body)
        client = self._reader if method == "GET" else self._writer
        with translated(f"{method} {self.url}{path.partition('?')[0]}", HINTS):
            response = client.send_request(request)
            if response.status_code >= 300:  # a redirect is that of a proxy: nothing was done
                raise HttpResponseError(response=response)
        return response


def _read_level(response: Any, name: str) -> str:
    try:
        return str(response.json()["attributes"]["recoveryLevel"])
    except UNREADABLE as exc:
        raise NoAnswer(f"delete the secret {name}: the reply was cut off") from exc
