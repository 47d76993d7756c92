"""Sign URLs with which jobs access their blobs. They are made just before they are sent, and never stored.

https://learn.microsoft.com/rest/api/storageservices/delegate-access-with-shared-access-signature
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from azure.core.credentials import AccessToken, TokenCredential
from azure.storage.blob import (
    BlobServiceClient,
    UserDelegationKey,
    generate_blob_sas,
    generate_container_sas,
)

from runspec_azure import store_layout
from runspec_azure.errors import translated
from runspec_azure.session.clouds import STORAGE_SCOPE
from runspec_azure.timing import CLOCK, Clock
from runspec_jobs.provider import NoAnswer

# The limit of a user delegation key: https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key
LONGEST_S = 7 * 86_400
EARLY_S = 900  # clocks differ
PARTS = {
    "signed_oid": "SignedOid",
    "signed_tid": "SignedTid",
    "signed_start": "SignedStart",
    "signed_expiry": "SignedExpiry",
    "signed_service": "SignedService",
    "signed_version": "SignedVersion",
    "value": "Value",
}


class Account(Protocol):
    """The storage account of the blobs, and how to sign for it: with its key, or with the user's login."""

    @property
    def options(self) -> Any: ...

    @property
    def account_key(self) -> str | None: ...

    @property
    def login(self) -> TokenCredential: ...


class FetchedToken:
    """A credential with a token that was fetched before: without a login, the SDK would retry for 90 seconds."""

    def __init__(self, login: TokenCredential) -> None:
        self._token = login.get_token(STORAGE_SCOPE)

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        return self._token


class Signer:
    """A signer of URLs for one container.

    Signatures that are older than *fresh_s* are renewed, so that each is valid for nearly all of `signed_for`.
    """

    def __init__(self, account: Account, fresh_s: float = 300.0, clock: Clock = CLOCK) -> None:
        self.account, self.fresh_s, self.clock = account, fresh_s, clock
        self.options = account.options
        self._made: dict[tuple[str, str], tuple[float, str]] = {}
        self._delegated: tuple[float, UserDelegationKey] | None = None

    def with_urls(self, value: Any) -> Any:
        """Return *value* with a signature or URL for every `{"$signed": ...}`. The caller must not store it."""
        if isinstance(value, Mapping):
            if value.keys() == {"$signed"}:
                return self._sign(value["$signed"])
            return {k: self.with_urls(v) for k, v in value.items()}
        return [self.with_urls(v) for v in value] if isinstance(value, list) else value

    def _sign(self, words: str) -> str:
        """Return a query for `racwdl`, the URL of the container for `url racwdl`, or that of a blob for `r KEY`."""
        base = f"{store_layout.endpoint(self.options)}/{self.options.container}"
        rights, _, key = words.removeprefix("url ").partition(" ")
        at, signature = self._made.get((rights, key), (0.0, ""))
        if not signature or self.clock.monotonic() - at > self.fresh_s:
            with translated("sign for the job"):
                signature = self.sign(rights, key)
            self._made[rights, key] = (self.clock.monotonic(), signature)
        if key:
            return f"{base}/{key}?{signature}"
        return f"{base}?{signature}" if words.startswith("url ") else signature

    def sign(self, rights: str, key: str) -> str:
        """https://learn.microsoft.com/rest/api/storageservices/create-service-sas"""
        wanted_s = float(self.options.signed_for)
        arguments: dict[str, Any] = {
            "account_name": self.options.storage_account,
            "container_name": self.options.container,
            "permission": rights,
            "protocol": "https",
        }
        if self.account.account_key:
            arguments["account_key"] = self.account.account_key
        else:
            wanted_s = min(wanted_s, LONGEST_S - 2 * EARLY_S)
            arguments["user_delegation_key"] = self._key(wanted_s)
        arguments["expiry"] = datetime.now(UTC) + timedelta(seconds=wanted_s)
        if key:
            return generate_blob_sas(blob_name=key, **arguments)
        return generate_container_sas(**arguments)

    def delegation(self) -> datetime:
        """Get a user delegation key for the login, and return when it expires. Raise the errors of `Client.call`."""
        with translated("get a user delegation key"):
            delegation = self._key(EARLY_S)
        return datetime.fromisoformat(str(delegation.signed_expiry))

    def _key(self, wanted_s: float) -> UserDelegationKey:
        """Return a key that expires later than its signatures, because a signature is not valid longer than its key.

        https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
        """
        if self._delegated is None or self.clock.monotonic() - self._delegated[0] > self.fresh_s:
            now = datetime.now(UTC)
            early = timedelta(seconds=EARLY_S)
            end = store_layout.endpoint(self.options)
            who = FetchedToken(self.account.login)
            with BlobServiceClient(end, credential=who, permit_redirects=False) as client:
                ends = now + timedelta(seconds=wanted_s) + early
                delegation = client.get_user_delegation_key(now - early, ends, cls=_whole)
            self._delegated = (self.clock.monotonic(), delegation)
        return self._delegated[1]


def _whole(_response: Any, item: Any, _headers: Any) -> Any:
    """Return the key *item*. Raise NoAnswer if a field is missing that signatures need."""
    for name, sent in PARTS.items():
        if not str(getattr(item, name, None) or "").strip():
            raise NoAnswer(f"the user delegation key: the reply lacks '{sent}'")
    try:
        base64.b64decode(item.value, validate=True)
    except ValueError:
        message = "the user delegation key: 'Value' of the reply is not base64"
        raise NoAnswer(message) from None
    return item
