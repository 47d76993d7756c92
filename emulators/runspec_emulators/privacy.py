"""What keeps the emulators of this process to their user: a key, and checks of what browsers send.

A loopback port is open to every user of the machine, and to every page that a browser shows.
"""

from __future__ import annotations

import fnmatch
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping

KEY = secrets.token_urlsafe(32)
"""Made anew by each process. It is in memory and in environments, which other users cannot read: proc(5)."""
HEADER = "x-rehearsal-key"
# What a page may send to another origin without being asked: https://fetch.spec.whatwg.org/#cors-safelisted-request-header
FORMS = re.compile(
    r"\s*(text/plain|multipart/form-data|application/x-www-form-urlencoded)\b", re.IGNORECASE
)


def has_key(headers: Mapping[str, str]) -> bool:
    """Return whether *headers*, by their names in lower case, bear the key."""
    return hmac.compare_digest(headers.get(HEADER, "").encode(), KEY.encode())


def refusal(headers: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return why a request comes from a page of a browser, or None if it does not seem to.

    A page leads a name of its own to 127.0.0.1 (DNS rebinding), so the host must be an address or localhost, or one of
    *names*, patterns of the names that clients know the server by. Every request of a page to another origin, except
    GET and HEAD of some kinds, says that origin: https://fetch.spec.whatwg.org/#origin-header
    """
    if "origin" in headers or "sec-fetch-site" in headers:
        return "requests of web pages are refused"
    host = headers.get("host", "")
    if not (_is_near(host) or any(fnmatch.fnmatchcase(_named(host), pattern) for pattern in names)):
        return f"{host!r} is no name of this server"
    return None


def _named(host: str) -> str:
    """Return a host without its port.

    >>> _named("127.0.0.1:80"), _named("[::1]:80"), _named("[::1]"), _named("LocalHost")
    ('127.0.0.1', '::1', '::1', 'localhost')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _is_near(host: str) -> bool:
    """Return whether *host* is an address, which no page chooses, or localhost."""
    try:
        ipaddress.ip_address(_named(host))
    except ValueError:
        return _named(host) == "localhost"
    return True
