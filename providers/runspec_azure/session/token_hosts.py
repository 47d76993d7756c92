"""Restrict where tokens are sent: to hosts of Azure's clouds, and to those that the user's profile names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy

from runspec_azure.session import clouds
from runspec_jobs.provider import CredentialsError


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
            what = f"an answer of Azure refers to {parts.scheme}://{parts.netloc}, which is not a host of Azure"
            raise CredentialsError(
                what, "no token was sent to that host; check the URLs in the profile"
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
