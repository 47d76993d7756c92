"""What a machine of AWS tells those that run on it, at its two addresses: credentials of its role, and its notice.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from runspec_emulators import privacy
from runspec_emulators.aws.batch import task_metadata
from runspec_emulators.aws.nodes import imds
from runspec_emulators.frame.handler import Reply, said
from runspec_emulators.frame.server import Endpoint

ROLE = "machine"
ROLE_PATH = "latest/meta-data/iam/security-credentials/"
TASK_PATH = "/v2/credentials/"
LASTS_S = 6 * 3600
Answer = tuple[int, Any]


class Metadata(Endpoint):
    """Answers for both addresses. The session tokens are those of `imds.Machine`.

    *ends* says when the machine goes, if it does, and *task* answers for what containers ask about themselves.
    """

    def __init__(self, ends: Callable[[], float | None], task: Callable[[str], Answer]) -> None:
        self.machine, self._ends, self._task = imds.Machine(), ends, task
        self.secrets: dict[str, str] = {}  # of every key that was given out
        self.task_uri = f"{TASK_PATH}{secrets.token_hex(16)}"
        super().__init__()

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        if path.startswith(task_metadata.TASK):
            return self._task(path)
        if path == self.task_uri:
            return 200, {"RoleArn": f"arn:aws:iam::123456789012:role/{ROLE}", **self._keys()}
        item = path.removeprefix("/")
        self.machine.ends = self._ends()
        status, said = self.machine.answer(method, item, headers)
        if status == 404 and item in (ROLE_PATH, ROLE_PATH + ROLE):
            return 200, ROLE if item == ROLE_PATH else {"Code": "Success", **self._keys()}
        return status, said

    def _keys(self) -> dict[str, str]:
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LASTS_S))
        key, secret = f"ASIA{secrets.token_hex(8).upper()}", privacy.KEY
        self.secrets[key] = secret
        return {
            "Type": "AWS-HMAC",
            "AccessKeyId": key,
            "SecretAccessKey": secret,
            "Token": secrets.token_urlsafe(60),
            "Expiration": ends,
        }

    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        status, value = self.answer(method, target, headers)
        if isinstance(value, str):
            return Reply(status, value.encode(), {"Content-Type": "text/plain"})
        return said(status, value, {"Content-Type": "application/json"})
