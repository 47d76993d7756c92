"""A token by an identity of the machine: for the store, where no signature was given to the job, and for a vault.

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
ELSEWHERE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"  # Azure's own SDKs look there instead, if it is set
RESOURCE = "https://storage.azure.com/"
TRIES = 6
EARLY_S = 300.0  # it is asked for anew when it is good for less
REFUSED = 77  # EX_NOPERM of sysexits.h


class Login:
    """Gives a token that is good, to any thread."""

    def __init__(self, identity: str, env: Mapping[str, str], resource: str = RESOURCE) -> None:
        query = {"api-version": "2018-02-01", "resource": resource, "msi_res_id": identity}
        base = env.get(ELSEWHERE) or MACHINE
        self._url = base + "/metadata/identity/oauth2/token?" + urlencode(query)
        self._lock = threading.Lock()
        self._kept: Tuple[str, float] = ("", 0.0)

    def token(self) -> str:
        """Return a token. Raises Failure where the machine has none to give."""
        with self._lock:
            token, ends = self._kept
            if time.time() > ends - EARLY_S:
                token, ends = self._kept = self._asked()
            return token

    def _asked(self) -> Tuple[str, float]:
        """Return a token, and when it ends.

        The machine asks for patience: "retry [...] 404, 410, 429, 5xx", with longer and longer pauses.
        """
        for count in range(1, TRIES + 1):
            try:
                found: Dict[str, Any] = json.loads(
                    boot.fetch(self._url, headers={"Metadata": "true"}).decode("utf-8")
                )
                token = found["access_token"]
                if not isinstance(token, str) or not token:
                    raise ValueError("its answer holds no token")
                return token, float(found["expires_on"])
            except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
                why = str(error).rpartition(": ")[2]
                if count == TRIES or why in ("400", "401", "403"):
                    text = "the machine gives no token for RUNSPEC_IDENTITY: {}"
                    raise Failure(text.format(why), REFUSED) from None
                time.sleep(0.25 * 2**count)
        raise AssertionError("BUG: the last try returns or raises")
