"""What a job may reach: its files, secrets and images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

from runspec_azure.batch import job
from runspec_azure.batch.decision import Decision
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import setting
from runspec_azure.resources import request, vm_sizes
from runspec_azure.session import clouds
from runspec_jobs.provider import Path, Problem, Spec
from runspec_jobs.provider.spec_checks import lacking, secret_problems

MOST_SIGNED_S = 7 * 86_400
LOGIN_SIGNED_S = MOST_SIGNED_S - 1800  # its key is valid from a little earlier until a little later
DAY_S = 86_400


def problems(decision: Decision, spec: Spec) -> Iterator[Problem]:
    options = decision.options
    yield from _open(options)
    yield from _keyed(decision, spec)
    yield from _one_cloud(options)
    yield from _stored(options)
    if not options.identity:
        yield from _signed(spec, options)
    if options.identity and not options.pool:
        yield from _managed(options)


def _stored(options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem if the job could not read the secrets of the run in the vault of the profile."""
    if options.vault and not options.identity:
        message = f"the job itself must read its secrets in {options.vault}, but has no identity"
        yield Problem(("provider",), message, "set identity in the profile, or remove vault")


def _managed(options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem for each setting that the Resource Manager needs to make a pool with an identity.

    https://learn.microsoft.com/azure/batch/managed-identity-pools
    """
    for key in ("subscription", "resource_group"):
        if not getattr(options, key):
            why = "which is needed to make a pool with an identity"
            missing = lacking("azure-batch", key, "...", why)
            yield missing._replace(hint=f"{missing.hint}, or set a pool that has the identity")


def _open(options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem for each URL to which a token would be sent unencrypted; a key is not sent, and only signs."""
    for name, key in (("batch_url", "batch_key"), ("blob_url", "storage_key")):
        url = getattr(options, name) or ""
        if url and urlsplit(url).scheme != "https" and not getattr(options, key):
            message = f"{name}: {url} is not encrypted, so the login could be intercepted"
            yield Problem(("provider",), message, f"write https://..., or set {key}")


def _keyed(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield what the service refuses to a client with a shared key; an emulator on this machine refuses nothing.

    "If the mode is UserSubscription, clients must use Microsoft Entra ID", and so must those that make a pool in a
    subnet or with an image of a gallery:
    https://learn.microsoft.com/rest/api/batchmanagement/batch-account/create
    https://learn.microsoft.com/azure/batch/batch-virtual-network#prerequisites
    https://learn.microsoft.com/azure/batch/batch-sig-images#prerequisites
    """
    options = decision.options
    if not options.batch_key or urlsplit(options.batch_url or "https:").scheme != "https":
        return
    hint = "remove batch_key from the profile, and log in, such as with az login"
    if decision.allocation == "user-subscription":
        message = "accounts with pool allocation mode 'user subscription' accept no batch_key"
        yield Problem(setting(spec, "pool_allocation"), message, hint)
    if options.pool or options.identity:
        return
    if options.subnet:
        message = "pools in a subnet cannot be made with batch_key"
        yield Problem(setting(spec, "subnet"), message, hint)
    if options.image.startswith("/"):
        message = "pools with an image of a gallery cannot be made with batch_key"
        yield Problem(setting(spec, "image"), message, hint)


def _one_cloud(options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem for each URL of another cloud, where the login is not valid."""
    cloud = clouds.of(options)
    for name in clouds.URLS:
        url = getattr(options, name) or ""
        other = clouds.of_url(url)
        if other is not None and other != cloud:
            message = f"{name}: {url} is in the cloud '{other.name}', but the profile is for '{cloud.name}'"
            hint = f"set cloud: {other.name}, or a URL of the cloud '{cloud.name}'"
            yield Problem(("provider",), message, hint)


def _signed(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield problems with times: what a login signs expires with its key, after 7 days at most.

    https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
    """
    long = options.signed_for > MOST_SIGNED_S
    if long and not options.storage_key:
        days = f"signed_for: {options.signed_for // DAY_S:,} days"
        message = f"{days}, and at most 7 days are possible without storage_key"
        yield Problem(
            setting(spec, "signed_for"), message, "set signed_for: 7d, or set storage_key"
        )
    short = options.signed_for > LOGIN_SIGNED_S and not options.storage_key
    lasts_s = LOGIN_SIGNED_S if short else options.signed_for
    ends = "7 days less half an hour" if short else _written(lasts_s)
    if spec.timeout is None and options.files == "signed":
        message = (
            f"files: signed: the job's access to its blobs ends {ends} from now, and without timeout it may run "
            "longer: what it writes is then lost, and it fails"
        )
        yield Problem(("provider",), message, severity="note")
    text = spec.run or " ".join(spec.command or ())
    if options.files == "signed" and spec.retry.attempts > 1 and "RUNSPEC_ATTEMPT" in text:
        message = (
            "files: signed: RUNSPEC_ATTEMPT is 1 in each attempt, since the service does not tell a task their "
            "number: look for what an earlier attempt has saved"
        )
        yield Problem(("run",) if spec.run else ("command",), message, severity="note")
    if spec.timeout is None or spec.timeout <= lasts_s:
        return
    message = f"{_written(spec.timeout)}, and the job's access to its blobs ends after {ends}"
    if spec.timeout > LOGIN_SIGNED_S and not options.storage_key:
        hint = "set identity in the profile, or storage_key and signed_for"
    else:
        hint = f"set signed_for: {_written(spec.timeout)} or longer in the profile, or set identity"
    yield Problem(("timeout",), message, hint)


def _written(seconds: int) -> str:
    """Return a duration as written in specs.

    >>> _written(172800), _written(5400), _written(30)
    ('2d', '90m', '30s')
    """
    for unit, length in (("d", DAY_S), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


# Problems of secrets that a job on Azure Batch cannot get, and notes about the others.


OWN_SECRETS = ("env", "file")


def check_secrets(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    yield from secret_problems(
        spec, options, "azure-batch", "'env:NAME'", partial(_secret, options)
    )


def _secret(options: BatchOptions, at: Path, _key: str, source: str) -> Iterator[Problem]:
    """Yield what is wrong with a secret, or a note on who can read it: nobody else, if a vault keeps it."""
    kind = source.partition(":")[0]
    if source.startswith(job.VAULT_KIND):
        yield from _vault(at, source, options)
    elif kind not in OWN_SECRETS:
        message = f"a job on Azure Batch cannot read secrets from '{kind}:'"
        yield Problem(
            at, message, "keep it in env:NAME or file:/path on this machine, or in azure-kv:"
        )
    elif not options.vault:
        message = "everyone who can read the job at Azure Batch can read this variable"
        yield Problem(at, message, severity="note")


def _vault(at: Path, where: str, options: BatchOptions) -> Iterator[Problem]:
    if job.vault_url(where) is None:
        hint = "write azure-kv:https://VAULT.vault.azure.net/secrets/NAME"
        yield Problem(
            at, f"the source of '{at[-1]}' in the profile is not a secret of a key vault", hint
        )
    elif not options.identity:
        message = f"the job itself must read '{where}', but has no identity"
        yield Problem(at, message, "set identity in the profile, or keep the secret in env:NAME")
    elif (other := clouds.of_url(job.vault_url(where) or "")) not in (None, clouds.of(options)):
        message = f"'{where}' is in the cloud '{other.name}', where the job's identity is not valid"
        yield Problem(at, message, f"use a vault in {clouds.of(options).vault}")


# Problems with the operating system image of the machines: its node agent, where it is, and its GPU driver.


# https://learn.microsoft.com/azure/batch/batch-custom-image-pools-to-azure-compute-gallery-migration-guide
RETIRED_IMAGES = "2026-03-31"


def check_image(decision: Decision, spec: Spec) -> Iterator[Problem]:
    yield from _agent(spec, decision.options)
    yield from _managed_image(spec, decision.options)
    yield from _driver(decision, spec)


def _agent(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem if the node agent does not belong to the image, which would make nodes unusable."""
    agent = request.NODE_AGENTS.get(options.image.rpartition(":")[0])
    if agent and agent != options.node_agent:
        message = f"node_agent: '{options.node_agent}' does not belong to {options.image}"
        yield Problem(setting(spec, "image"), message, f"set node_agent: {agent}")


def _managed_image(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem for an image with an id that is in no gallery."""
    if options.image.startswith("/") and "/galleries/" not in options.image.lower():
        message = f"Azure Batch retired pools with managed images on {RETIRED_IMAGES}: this image is in no gallery"
        hint = "put it into an Azure Compute Gallery, and set image: /subscriptions/.../galleries/GALLERY/images/NAME"
        yield Problem(setting(spec, "image"), message, hint)


def _driver(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield a problem if the GPUs of the machines do not work with the image."""
    options, name = decision.options, decision.vm_size
    kind = vm_sizes.gpu_type(name)
    if not decision.request.gpus or not request.lacks_driver(kind, options.image):
        return
    at = setting(spec, "vm_size") if options.vm_size else ("cluster", "gpu_type")
    if not options.vm_size and decision.request.gpu_type is None:
        at = ("cluster", "gpus")
    needed = request.driver(kind)
    message = f"the {kind} of {name} needs the driver {needed.name}, which {options.image} lacks"
    if options.start_task:
        yield Problem(at, f"{message}: start_task must install it", severity="note")
        return
    if image := request.image_with(kind):
        agent = request.NODE_AGENTS[image.rpartition(":")[0]]
        known = f"image: {image} and node_agent: {agent}"
    else:
        known = "an image with that driver"
    hint = f"set {known} in the profile, or a start_task that installs it, or another gpu_type"
    yield Problem(at, message, hint)
