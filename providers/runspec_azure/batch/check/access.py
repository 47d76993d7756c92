"""What is wrong with how a job would reach its blobs: by a signature that ends, or by an identity."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import setting
from runspec_azure.session import clouds
from runspec_jobs.provider import Facts, Problem, Spec

MOST_SIGNED_S = 7 * 86_400
LOGIN_SIGNED_S = MOST_SIGNED_S - 1800  # its key begins a little before, and ends a little after it
DAY_S = 86_400


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: BatchOptions = facts.options
    yield from _open(options)
    yield from _one_cloud(options)
    if not options.identity:
        yield from _signed(spec, options)
    if options.identity and not options.pool:
        yield from _managed(options)


def _managed(options: BatchOptions) -> Iterator[Problem]:
    """A pool with an identity is made by the Resource Manager, at a path of its own.

    https://learn.microsoft.com/azure/batch/managed-identity-pools
    """
    for key in ("subscription", "resource_group"):
        if not getattr(options, key):
            what = f"a pool with an identity is made where the profile says, and it names no {key}"
            yield Problem(("provider",), what, f"add {key}, or name a pool that has the identity")


def _open(options: BatchOptions) -> Iterator[Problem]:
    """A token in the open is anybody's who listens; a key signs, and is not sent."""
    for name, key in (("batch_url", "batch_key"), ("blob_url", "storage_key")):
        url = getattr(options, name) or ""
        if url and urlsplit(url).scheme != "https" and not getattr(options, key):
            what = f"{name}: {url} is not encrypted, and whoever listens could take the login"
            yield Problem(("provider",), what, f"write https://..., or name a {key}")


def _one_cloud(options: BatchOptions) -> Iterator[Problem]:
    """A login of one cloud is nobody in another."""
    cloud = clouds.of(options)
    for name in clouds.URLS:
        url = getattr(options, name) or ""
        other = clouds.of_url(url)
        if other is not None and other != cloud:
            what = (
                f"{name}: {url} is in the cloud '{other.name}', and the rest is in '{cloud.name}'"
            )
            hint = f"set cloud: {other.name}, or name one of the cloud '{cloud.name}'"
            yield Problem(("provider",), what, hint)


def _signed(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """What is signed by a login ends with a key of 7 days.

    https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
    """
    long = options.signed_for > MOST_SIGNED_S
    if long and not options.storage_key:
        what = f"signed_for: {options.signed_for // DAY_S:,} days, and without storage_key it is 7 at most"
        yield Problem(
            setting(spec, "signed_for"), what, "set signed_for: 7d, or name a storage_key"
        )
    short = options.signed_for > LOGIN_SIGNED_S and not options.storage_key
    lasts_s = LOGIN_SIGNED_S if short else options.signed_for
    if spec.timeout is None or spec.timeout <= lasts_s:
        return
    ends = "7 days less half an hour" if short else _said(lasts_s)
    what = f"{_said(spec.timeout)}, and the job's way to its blobs ends after {ends}"
    if spec.timeout > LOGIN_SIGNED_S and not options.storage_key:
        hint = "name an identity in the profile, or a storage_key and signed_for"
    else:
        hint = (
            f"set signed_for: {_said(spec.timeout)} or longer in the profile, or name an identity"
        )
    yield Problem(("timeout",), what, hint)


def _said(seconds: int) -> str:
    """Return a time as a spec has it.

    >>> _said(172800), _said(5400), _said(30)
    ('2d', '90m', '30s')
    """
    for unit, length in (("d", DAY_S), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
