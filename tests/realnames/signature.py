"""Whether a request to S3 is signed as S3 wants it, which moto does not look at.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlsplit

UNRESERVED = "-_.~"
HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)"
)


def problem(
    method: str, target: str, headers: Mapping[str, str], secret: Callable[[str], str | None]
) -> str:
    """Return what is wrong with the signature, or nothing; *secret* knows the secret of a key."""
    parts = urlsplit(target)
    query = parse_qsl(parts.query, keep_blank_values=True)
    words = dict(query)
    if "X-Amz-Signature" in words:
        query = [pair for pair in query if pair[0] != "X-Amz-Signature"]
        key, _, scope = words["X-Amz-Credential"].partition("/")
        names, given = words["X-Amz-SignedHeaders"], words["X-Amz-Signature"]
        date, digest = words["X-Amz-Date"], "UNSIGNED-PAYLOAD"
    else:
        found = HEADER.fullmatch(headers.get("authorization", ""))
        if found is None:
            return "the request is not signed"
        key, scope, names, given = found.groups()
        date, digest = headers["x-amz-date"], headers["x-amz-content-sha256"]
        if unsigned := [name for name in _to_be_signed(headers) if name not in names.split(";")]:
            return f"{unsigned} must be signed"
    known = secret(key)
    if known is None:
        return f"nobody knows the key {key}"
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names.split(";"))
    request = "\n".join(
        (method, _quoted(unquote(parts.path), "/"), _pairs(query), lines, names, digest)
    )
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashed}"
    wanted = hmac.digest(_derived(known, scope), text.encode(), hashlib.sha256).hex()
    return "" if hmac.compare_digest(wanted, given) else "the signature is another"


def _to_be_signed(headers: Mapping[str, str]) -> list[str]:
    """ "The CanonicalHeaders list must include [...] host [and] any x-amz-* headers"."""
    return ["host", *(name for name in headers if name.startswith("x-amz-"))]


def _derived(secret: str, scope: str) -> bytes:
    made = f"AWS4{secret}".encode()
    for word in scope.split("/"):
        made = hmac.digest(made, word.encode(), hashlib.sha256)
    return made


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, UNRESERVED + safe)


def _pairs(query: list[tuple[str, str]]) -> str:
    return "&".join("=".join(map(_quoted, pair)) for pair in sorted(query))
