"""Secrets of this machine: each run has its own in the key vault of the profile, and its job reads them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_azure import store_layout
from runspec_azure.batch.options import BatchOptions
from runspec_jobs.provider import Request, Scope, Spec, Step, short_hash

SERVICE, SET, DELETE = "keyvault", "Secret_Set", "Secret_Delete"
LOCAL = ("env:", "file:")  # sources that only the machine of the user can read
RUN, STORE = "runspec", "runspec-store"  # tags
# https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates#object-identifiers
LONGEST_NAME = 127


def carried(spec: Spec, options: BatchOptions) -> Mapping[str, str]:
    """Return the variables whose values the vault keeps for a run, with their sources on this machine."""
    if not options.vault:
        return {}
    sources = {variable: options.secrets.get(key, "") for variable, key in spec.secrets.items()}
    return {name: source for name, source in sources.items() if source.startswith(LOCAL)}


def make_name(run: str, variable: str) -> str:
    """Return the name of a secret. Names have no `_`, and their case does not tell them apart.

    >>> make_name("job-a1b2c3", "HF_TOKEN")
    'runspec-job-a1b2c3-HF-TOKEN'
    """
    plain = f"runspec-{run}-{variable.replace('_', '-')}"
    if variable == variable.upper() and len(plain) <= LONGEST_NAME:
        return plain
    return f"runspec-{run}-{short_hash([variable])}"


def list_urls(spec: Spec, run: str, options: BatchOptions) -> Mapping[str, str]:
    """Return where the job of *run* reads each of its variables; without a version, it gets the newest one."""
    vault = (options.vault or "").rstrip("/")
    names = {variable: make_name(run, variable) for variable in carried(spec, options)}
    return {variable: f"{vault}/secrets/{name}" for variable, name in names.items()}


def steps(spec: Spec, run: str, options: BatchOptions) -> Iterator[Step]:
    """Yield the steps that store the secrets of *run*, right before its job.

    One that was interrupted is repeated, so that a job never starts with a value that the caller has changed since.
    https://learn.microsoft.com/rest/api/keyvault/secrets/set-secret/set-secret
    """
    tags = {RUN: run, STORE: store_layout.store(options)}
    for variable, source in carried(spec, options).items():
        name = make_name(run, variable)
        body = {"value": {"$secret": source}, "tags": tags}
        do = Request(SERVICE, SET, {"path": {"name": name}, "body": body})
        title = f"store {variable} as a secret of the run in {options.vault}"
        yield Step(f"secret-{variable}", title, Scope.RUN, do, make_deletion(name))


def make_deletion(name: str) -> Request:
    return Request(SERVICE, DELETE, {"path": {"name": name}})
