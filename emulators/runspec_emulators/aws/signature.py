"""Signature version 4, made and verified: it shows that a request comes from who has the key.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from calendar import timegm
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

UNRESERVED = "-_.~"
ALGORITHM = "AWS4-HMAC-SHA256"
HEADER = re.compile(
    rf"{ALGORITHM} Credential=([^/]+)/([^,]+), *SignedHeaders=([^,]+), *Signature=([0-9a-f]+)"
)
UNSIGNED = "UNSIGNED-PAYLOAD"
SKEW_S = 15 * 60  # "more than 15 minutes": RequestTimeTooSkewed of S3
LONGEST_S = 7 * 24 * 3600  # X-Amz-Expires: "The maximum is 604800 seconds (seven days)"


class _Given(NamedTuple):
    """What a request says about its signature."""

    key: str
    scope: str
    names: str
    signature: str
    date: str
    digest: str | None
    lasts_s: int | None
    query: list[tuple[str, str]]


def problem(
    method: str,
    target: str,
    headers: Mapping[str, str],
    secret: Callable[[str], str | None],
    body: Callable[[], bytes] = bytes,
) -> str:
    """Return what is wrong with the signature of a request, or nothing.

    *headers* are by their names in lower case. *secret* returns the secret of an access key, or None for an unknown
    one. *body* is called where the request does not say the hash of its body.
    """
    try:
        given = _read(urlsplit(target).query, headers)
    except (KeyError, ValueError):
        return "the signature cannot be read"
    if given is None:
        return "the request is not signed"
    known = secret(given.key)
    if known is None:
        return f"nobody knows the key {given.key}"
    signed = given.names.split(";")
    if unsigned := [name for name in _to_be_signed(headers, given) if name not in signed]:
        return f"{unsigned} must be signed"
    if missing := [name for name in signed if name not in headers]:
        return f"{missing} are signed, and are not there"
    digest = given.digest or hashlib.sha256(body()).hexdigest()
    service = given.scope.split("/")[2]
    path = _path(urlsplit(target).path, service)
    wanted = _signature(known, method, path, given.query, headers, signed, given, digest)
    if not hmac.compare_digest(wanted, given.signature):
        return "the signature is another"
    return _late(given)


def sign(
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
    key: tuple[str, str],
    region: str,
    service: str,
) -> dict[str, str]:
    """Return the headers of a request, by their names in lower case, signed with *key*: its id and its secret."""
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    digest = headers.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
    signed = {**headers, "x-amz-date": date, "x-amz-content-sha256": digest}
    split = urlsplit(target)
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    names = sorted(signed)
    query = parse_qsl(split.query, keep_blank_values=True)
    given = _Given(key[0], scope, ";".join(names), "", date, digest, None, query)
    path = _path(split.path, service)
    signature = _signature(key[1], method, path, query, signed, names, given, digest)
    signed["authorization"] = (
        f"{ALGORITHM} Credential={key[0]}/{scope}, SignedHeaders={given.names}, Signature={signature}"
    )
    return signed


def _read(text: str, headers: Mapping[str, str]) -> _Given | None:
    query = parse_qsl(text, keep_blank_values=True)
    values = dict(query)
    if "X-Amz-Signature" in values:
        key, _, scope = values["X-Amz-Credential"].partition("/")
        return _Given(
            key,
            scope,
            values["X-Amz-SignedHeaders"],
            values["X-Amz-Signature"],
            values["X-Amz-Date"],
            headers.get("x-amz-content-sha256", UNSIGNED),
            int(values["X-Amz-Expires"]),
            [pair for pair in query if pair[0] != "X-Amz-Signature"],
        )
    match = HEADER.fullmatch(headers.get("authorization", ""))
    if match is None:
        return None
    digest = headers.get("x-amz-content-sha256")
    key, scope, names, signature = match.groups()
    return _Given(key, scope, names, signature, headers["x-amz-date"], digest, None, query)


def _to_be_signed(headers: Mapping[str, str], given: _Given) -> Iterable[str]:
    """ "The CanonicalHeaders list must include [...] host [and] any x-amz-* headers"; in a URL, "host"."""
    names = () if given.lasts_s is not None else headers
    return ["host", *(name for name in names if name.startswith("x-amz-"))]


def _late(given: _Given) -> str:
    began = timegm(time.strptime(given.date, "%Y%m%dT%H%M%SZ"))
    now = time.time()
    if given.lasts_s is None:
        return (
            "" if abs(now - began) < SKEW_S else "the time of the request is not that of the server"
        )
    if not 0 < given.lasts_s <= LONGEST_S:
        return "the URL lasts too long"
    return "" if began - SKEW_S < now < began + given.lasts_s else "the URL has expired"


def _signature(
    secret: str,
    method: str,
    path: str,
    query: list[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Iterable[str],
    given: _Given,
    digest: str,
) -> str:
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed)
    request = "\n".join((method, path, _pairs(query), lines, given.names, digest))
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"{ALGORITHM}\n{given.date}\n{given.scope}\n{hashed}"
    made = f"AWS4{secret}".encode()
    for word in given.scope.split("/"):
        made = hmac.digest(made, word.encode(), hashlib.sha256)
    return hmac.digest(made, text.encode(), hashlib.sha256).hex()


def _path(path: str, service: str) -> str:
    """ "You do not normalize URI paths for requests to Amazon S3"; of others each segment is encoded twice."""
    return _quoted(unquote(path) if service == "s3" else path, "/")


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, UNRESERVED + safe)


def _pairs(query: list[tuple[str, str]]) -> str:
    return "&".join("=".join(pair) for pair in sorted((_quoted(k), _quoted(v)) for k, v in query))
