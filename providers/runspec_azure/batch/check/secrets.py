"""Problems of secrets that a job on Azure Batch cannot get, and notes about the others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from runspec_azure.batch.job import key_vault
from runspec_azure.batch.options import BatchOptions
from runspec_azure.session import clouds
from runspec_jobs.provider import Path, Problem, Spec, secret_problems

OWN = ("env", "file")


def problems(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    yield from secret_problems(
        spec, options, "azure-batch", "'env:NAME'", partial(_secret, options)
    )


def _secret(options: BatchOptions, at: Path, _key: str, source: str) -> Iterator[Problem]:
    kind = source.partition(":")[0]
    if source.startswith(key_vault.KIND):
        yield from _vault(at, source, options)
    elif kind not in OWN:
        what = f"a job on Azure Batch cannot read secrets from '{kind}:'"
        yield Problem(
            at, what, "keep it in env:NAME or file:/path on this machine, or in azure-kv:"
        )
    else:
        what = "everyone who can read the job at Azure Batch can read this variable"
        yield Problem(at, what, severity="note")


def _vault(at: Path, where: str, options: BatchOptions) -> Iterator[Problem]:
    if key_vault.url(where) is None:
        hint = "write azure-kv:https://VAULT.vault.azure.net/secrets/NAME"
        yield Problem(
            at, f"the source of '{at[-1]}' in the profile is not a secret of a key vault", hint
        )
    elif not options.identity:
        what = f"the job itself must read '{where}', but has no identity"
        yield Problem(at, what, "set identity in the profile, or keep the secret in env:NAME")
    elif (other := clouds.of_url(key_vault.url(where) or "")) not in (None, clouds.of(options)):
        what = f"'{where}' is in the cloud '{other.name}', where the job's identity is not valid"
        yield Problem(at, what, f"use a vault in {clouds.of(options).vault}")
