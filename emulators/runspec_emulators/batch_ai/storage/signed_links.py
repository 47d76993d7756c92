"""Signed links to files, and what they answer: 200, 206, 403, 404, 416.

https://learn.microsoft.com/rest/api/storageservices/get-file
https://learn.microsoft.com/rest/api/storageservices/specifying-the-range-header-for-file-service-operations
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import re
import secrets
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

PATH = "/_storage/"
RANGE = re.compile(r"bytes=(\d+)-(\d*)")
ERROR = '<?xml version="1.0" encoding="utf-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'


class File(NamedTuple):
    """The response to a request for a signed link."""

    status: int
    body: bytes
    headers: dict[str, str]


class Links:
    """Makes links, and knows its own again. The key never leaves."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._key = secrets.token_bytes(32)

    def make(self, file: Path, seconds: float) -> str:
        """Return a link by which *file* can be read for that many *seconds*."""
        path, end = quote(str(file).lstrip("/")), f"{time.time() + seconds:.3f}"
        when = datetime.datetime.fromtimestamp(float(end), datetime.UTC)
        query = {
            "sv": "2016-05-31",
            "sr": "f",
            "sp": "rl",
            "se": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "sig": self._sign(path, end),
            "end": end,
        }
        return f"{self._url}{PATH}{path}?{urlencode(query)}"

    def _sign(self, path: str, end: str) -> str:
        digest = hmac.new(self._key, f"{path}\n{end}".encode(), hashlib.sha256).digest()
        return base64.b64encode(digest).decode()

    def answer(self, target: str, ranged: str | None) -> File:
        """Answer GET of a link, for the Range that it asks."""
        split = urlsplit(target)
        path, query = split.path.removeprefix(PATH), parse_qs(split.query)
        given, end = query.get("sig", [""])[0], query.get("end", ["0"])[0]
        good = hmac.compare_digest(given.encode(), self._sign(path, end).encode())
        if not good or float(end) < time.time():
            return failure(
                403, "AuthenticationFailed", "Server failed to authenticate the request."
            )
        try:
            with Path("/", unquote(path)).open("rb") as file:
                size = file.seek(0, 2)
                first, last = wanted(ranged, size)
                if ranged and first >= size:
                    answer = failure(416, "InvalidRange", "The range specified is invalid.")
                    answer.headers["Content-Range"] = f"bytes */{size}"
                    return answer
                file.seek(first)
                body = file.read(last - first + 1)
        except OSError:
            return failure(404, "ResourceNotFound", "The specified resource does not exist.")
        return make_file(body, first, size, ranged)


def wanted(ranged: str | None, size: int) -> tuple[int, int]:
    """Return the first and the last byte that are asked for.

    >>> wanted(None, 10), wanted("bytes=3-", 10), wanted("bytes=3-4", 10), wanted("bytes=3-99", 10)
    ((0, 9), (3, 9), (3, 4), (3, 9))
    """
    asked = RANGE.fullmatch(ranged or "")
    if asked is None:
        return 0, size - 1
    last = int(asked[2]) if asked[2] else size - 1
    return int(asked[1]), min(last, size - 1)


def make_file(body: bytes, first: int, size: int, ranged: str | None) -> File:
    headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
    if not ranged:
        return File(200, body, headers)
    headers["Content-Range"] = f"bytes {first}-{first + len(body) - 1}/{size}"
    return File(206, body, headers)


def failure(status: int, code: str, message: str) -> File:
    headers = {"Content-Type": "application/xml", "x-ms-error-code": code}
    return File(status, ERROR.format(code, message).encode(), headers)


# https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
BUSY = failure(503, "ServerBusy", "The server is currently unable to receive requests.")
