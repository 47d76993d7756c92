"""How requests reach Azure: the transport of the SDKs with its time limits, logins, and the hosts that get tokens.

Whole replies have a time limit (see `TimedStream`), and so have pauses that an answer asks for.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Iterable
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import TokenCredential
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import RetryPolicy, SansIOHTTPPolicy
from azure.core.pipeline.transport import RequestsTransport
from requests import Session
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection

from runspec_azure.session import clouds
from runspec_azure.session.clouds import Cloud
from runspec_jobs.provider import CredentialsError
from runspec_jobs.provider.streams.object_streams import TimedStream

LONGEST_PAUSE_S = 60.0  # that an answer may ask for before another attempt


class BoundedRetries(RetryPolicy[Any, Any]):
    """A policy that waits as long as Retry-After asks for, and LONGEST_PAUSE_S at most."""

    def get_retry_after(self, response: PipelineResponse[Any, Any]) -> float | None:
        try:
            asked_s = super().get_retry_after(response)
        except (ValueError, TypeError):  # neither a number nor a date
            return None
        return None if asked_s is None else min(asked_s, LONGEST_PAUSE_S)


class TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        body: Any = self.fp  # a BufferedReader, as makefile("rb") gives
        self.fp = io.BufferedReader(TimedStream(body.detach(), sock, time.monotonic))


class TimedConnection(HTTPConnection):
    response_class = TimedResponse


class TimedSecureConnection(HTTPSConnection):
    response_class = TimedResponse


class TimedPool(HTTPConnectionPool):
    ConnectionCls = TimedConnection


class TimedSecurePool(HTTPSConnectionPool):
    ConnectionCls = TimedSecureConnection


POOLS = {"http": TimedPool, "https": TimedSecurePool}


class TimedAdapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **more)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, *args: Any, **more: Any) -> Any:
        manager = super().proxy_manager_for(*args, **more)
        manager.pool_classes_by_scheme = POOLS
        return manager


def new_session() -> Session:
    """Return a session, which does not retry."""
    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(
            scheme,
            TimedAdapter(max_retries=Retry(total=False, redirect=False, raise_on_status=False)),
        )
    return session


def opened(**timeouts: float) -> RequestsTransport:
    """Return a transport of its own, which does not retry: the SDKs' policies do, or nobody does."""
    return RequestsTransport(session=new_session(), session_owner=True, **timeouts)


# Restrict where tokens are sent: to hosts of Azure's clouds, and to those that the user's profile names.


class TokenHosts(SansIOHTTPPolicy[Any, Any]):
    """A policy that refuses requests to any other host before a token or a signature is added to them.

    A link to the next page, the URL of an operation and a redirect come from answers, which could be forged. The
    policy runs after those that follow them (`per_retry_policies`), and before the one that signs.
    """

    def __init__(self, options: Any) -> None:
        self._own = frozenset(_origins(getattr(options, name, None) for name in clouds.URLS))

    def on_request(self, request: PipelineRequest[Any]) -> None:
        url: str = request.http_request.url
        if not self.allows(url):
            parts = urlsplit(url)
            message = f"an answer of Azure refers to {parts.scheme}://{parts.netloc}, which is not a host of Azure"
            raise CredentialsError(
                message, "no token was sent to that host; check the URLs in the profile"
            )

    def allows(self, url: str) -> bool:
        """Return whether a token may be sent to *url*."""
        parts = urlsplit(url)
        if (parts.scheme, parts.netloc) in self._own:
            return True
        plain = parts.username is None and parts.port in (None, 443)
        return parts.scheme == "https" and plain and clouds.of_url(url) is not None


def _origins(urls: Iterable[str | None]) -> Iterable[tuple[str, str]]:
    for url in urls:
        if url:
            parts = urlsplit(url)
            yield parts.scheme, parts.netloc


AUTHORITY = "AZURE_AUTHORITY_HOST"  # the variable of azure-identity for another login host


def find_login(cloud: Cloud) -> TokenCredential:
    """Return the credential that azure-identity finds. Its requests have the time limits of all others."""
    from azure.identity import (
        DefaultAzureCredential,  # takes a while, and accounts with a key need none
    )

    return DefaultAzureCredential(
        authority=os.environ.get(AUTHORITY) or cloud.login,
        transport=opened(connection_timeout=10, read_timeout=60),
    )
