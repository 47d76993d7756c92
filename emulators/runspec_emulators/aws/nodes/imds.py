"""The instance metadata service of EC2 machines, version 2 with tokens: it announces that a machine is reclaimed.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping

TTL_HEADER = "x-aws-ec2-metadata-token-ttl-seconds"
TOKEN_HEADER = "x-aws-ec2-metadata-token"
LONGEST_S = 21_600  # "a maximum of six hours"
Answer = tuple[int, str]


class Machine:
    """The metadata of the machine of one attempt."""

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}
        self.ends: float | None = None
        """When it is to be taken away, in seconds since 1970."""

    def token(self, given: str) -> Answer:
        """Return a session token. Without a good time to live: "400 - Missing or Invalid Parameters"."""
        if not given.isdecimal() or not 1 <= int(given) <= LONGEST_S:
            return 400, "Missing or Invalid Parameters"
        token = secrets.token_urlsafe()
        self._tokens[token] = time.monotonic() + int(given)
        return 200, token

    def item(self, path: str, token: str) -> Answer:
        """Return one item. "The GET request uses an invalid token": 401.

        "If EC2 is not preparing to stop or terminate the instance, [...] spot/instance-action
        doesn't exist and you'll receive an HTTP 404 error". Spot interruption notices.
        """
        if self._tokens.get(token, 0.0) < time.monotonic():
            return 401, "Unauthorized"
        if path != "latest/meta-data/spot/instance-action" or self.ends is None:
            return 404, "Not Found"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.ends))
        return 200, json.dumps({"action": "terminate", "time": at})

    def answer(self, method: str, item: str, headers: Mapping[str, str]) -> Answer:
        """Answer a request; *headers* are by their names in lower case."""
        if (method, item) == ("PUT", "latest/api/token"):
            return self.token(headers.get(TTL_HEADER, ""))
        if method != "GET":
            return 405, "Method Not Allowed"
        return self.item(item, headers.get(TOKEN_HEADER, ""))
