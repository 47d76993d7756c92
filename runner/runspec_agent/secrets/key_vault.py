"""Secrets that the job itself gets from Azure Key Vault, by an identity of its machine: no service stores them.

https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret
"""

import json
import time
from http.client import HTTPException
from typing import Dict, MutableMapping

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure
from runspec_agent.store.managed_identity import REFUSED, TRIES, Login

LISTED = (
    "RUNSPEC_VAULT"  # which variable gets which secret: {"NAME": "https://VAULT/secrets/SECRET"}
)
AUDIENCE = (
    "RUNSPEC_VAULT_AUDIENCE"  # which variable has the vaults' resource: each cloud has its own
)
VERSION = "7.4"


def fill(env: MutableMapping[str, str]) -> None:
    """Put the secrets that `RUNSPEC_VAULT` lists into *env*. Raises Failure for one that is not given."""
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
            found = json.loads(content.decode("utf-8"))["value"]
            if not isinstance(found, str):
                raise TypeError("its answer holds no value")
        except boot.Untrusted as error:
            text = "the vault does not give the secret of {}: {}"
            raise Failure(text.format(name, error), error.code) from None
        except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
            why = str(error).rpartition(": ")[2]
            if count == TRIES or why in ("400", "401", "403", "404"):
                text = "the vault does not give the secret of {}: {}"
                raise Failure(text.format(name, why), REFUSED) from None
            time.sleep(0.25 * 2**count)
            continue
        if "\0" in found:
            raise Failure("the secret of {} holds a NUL, which no variable can".format(name))
        return found
    raise AssertionError("BUG: the last try returns or raises")
