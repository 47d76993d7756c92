"""Secrets in a key vault: the plan has their URLs, and the job reads them with its identity."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from runspec_azure.batch.options import BatchOptions
from runspec_azure.session import clouds
from runspec_jobs.provider import Spec

KIND = "azure-kv:"
# The part before # is the id of the vault, which azure-batch-ai needs.
# https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates#object-identifiers
SOURCE = re.compile(
    r"azure-kv:(?:[^#]*#)?(https://[^/#?\s]+/secrets/[0-9A-Za-z-]{1,127}(?:/[0-9a-f]{32})?)/?"
)


def url(source: str) -> str | None:
    """Return the URL of the secret that *source* names; None if it is not a secret of a key vault.

    >>> url("azure-kv:/subscriptions/1/vaults/v#https://v.vault.azure.net/secrets/hf")
    'https://v.vault.azure.net/secrets/hf'
    """
    found = SOURCE.fullmatch(source)
    return found and found[1]


def environment(spec: Spec, options: BatchOptions) -> Mapping[str, str]:
    """Return variables with the URLs of the secrets that the job reads, and the audience of its tokens, if any."""
    sources = {variable: options.secrets[key] for variable, key in spec.secrets.items()}
    listed = {variable: url(source) for variable, source in sources.items() if url(source)}
    if not listed:
        return {}
    audience = clouds.of(options).vault_audience
    return {
        "RUNSPEC_VAULT": json.dumps(listed, sort_keys=True),
        "RUNSPEC_VAULT_AUDIENCE": audience,
    }
