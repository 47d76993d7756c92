"""Tokens for an identity of the machine, to access the store without a signature, or a key vault.

https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token

From a container of Azure Batch: see docs/unverified.md, azure-35.
"""

import json
import threading
import time
from http.client import HTTPException
from typing import Any, Dict, Mapping, Tuple
from urllib.parse import urlencode

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure

MACHINE = "http://169.254.169.254"
ELSEWHERE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"  # overrides the address of the service, as in Azure's own SDKs
RESOURCE = "https://storage.azure.com/"
TRIES = 6
EARLY_S = 300.0  # how long before its end a token is renewed
REFUSED = 77  # EX_NOPERM of sysexits.h


class Login:
    """A source of valid tokens, for any thread."""

    def __init__(self, identity: str, env: Mapping[str, str], resource: str = RESOURCE) -> None:
        query = {"api-version": "2018-02-01", "resource": resource, "msi_res_id": identity}
        base = env.get(ELSEWHERE) or MACHINE
        self._url = base + "/metadata/identity/oauth2/token?" + urlencode(query)
        self._lock = threading.Lock()
        self._kept: Tuple[str, float] = ("", 0.0)

    def token(self) -> str:
        """Return a token. Raise Failure if the machine issues none."""
        with self._lock:
            token, ends = self._kept
            if time.time() > ends - EARLY_S:
                token, ends = self._kept = self.request()
            return token

    def request(self) -> Tuple[str, float]:
        """Return a token and its expiry time.

        The service asks clients to "retry [...] 404, 410, 429, 5xx", with growing pauses.
        """
        for count in range(1, TRIES + 1):
            try:
                reply: Dict[str, Any] = json.loads(
                    boot.fetch(self._url, headers={"Metadata": "true"}).decode("utf-8")
                )
                token = reply["access_token"]
                if not isinstance(token, str) or not token:
                    raise ValueError("the answer has no token")
                return token, float(reply["expires_on"])
            except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
                why = str(error).rpartition(": ")[2]
                if count == TRIES or why in ("400", "401", "403"):
                    text = "the machine issues no token for RUNSPEC_IDENTITY: {}"
                    raise Failure(text.format(why), REFUSED) from None
                time.sleep(0.25 * 2**count)
        raise AssertionError("BUG: the last attempt returns or raises")
