"""Secrets that the job reads from Azure Key Vault with an identity of its machine, so that no service stores them.

https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret
"""

import json
import time
from http.client import HTTPException
from typing import Dict, MutableMapping

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket
from runspec_agent.store.managed_identity import REFUSED, TRIES, Login

LISTED = "RUNSPEC_VAULT"  # maps variables to secrets: {"NAME": "https://VAULT/secrets/SECRET"}
AUDIENCE = "RUNSPEC_VAULT_AUDIENCE"  # the resource for which tokens of vaults are issued: each cloud has its own
VERSION = "7.4"


def fill(_: Bucket, env: MutableMapping[str, str]) -> None:
    """Put the secrets that `RUNSPEC_VAULT` lists into *env*. Raise Failure if a secret cannot be read."""
    listed: Dict[str, str] = json.loads(env.pop(LISTED, "") or "{}")
    audience = env.pop(AUDIENCE, "")
    if listed:
        login = Login(env["RUNSPEC_IDENTITY"], env, audience)
        for name in sorted(listed):
            env[name] = _value(name, listed[name], login)


def _value(name: str, url: str, login: Login) -> str:
    for count in range(1, TRIES + 1):
        headers = {"Authorization": "Bearer " + login.token()}
        try:
            content = boot.fetch("{}?api-version={}".format(url, VERSION), headers=headers)
            value = json.loads(content.decode("utf-8"))["value"]
            if not isinstance(value, str):
                raise TypeError("the answer of the vault has no value")
        except boot.Untrusted as error:
            text = "cannot read the secret for {} from the vault: {}"
            raise Failure(text.format(name, error), error.code) from None
        except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
            why = str(error).rpartition(": ")[2]
            if count == TRIES or why in ("400", "401", "403", "404"):
                text = "cannot read the secret for {} from the vault: {}"
                raise Failure(text.format(name, why), REFUSED) from None
            time.sleep(0.25 * 2**count)
            continue
        if "\0" in value:
            raise Failure(
                "the secret for {} contains a NUL, which a variable cannot hold".format(name)
            )
        return value
    raise AssertionError("BUG: the last attempt returns or raises")
