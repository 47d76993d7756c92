"""Read a subscription: its Batch account, the VM sizes that it can use, and its quotas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Protocol
from urllib.parse import urlsplit

from azure.core.credentials import TokenCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.errors import translated
from runspec_azure.resources import vm_sizes
from runspec_azure.session import clouds, transport
from runspec_azure.session.responses import collected, elements
from runspec_azure.session.transport import TokenHosts
from runspec_jobs.provider import Finding, NoAnswer, RunspecError

ACCOUNTS = "Microsoft.Batch/batchAccounts"
API_VERSION = "2025-06-01"
PERMISSIONS = "2022-04-01"  # the version of Microsoft.Authorization/permissions
MODES = {"UserSubscription": "user-subscription", "BatchService": "batch-service"}
MIB_IN_GIB = 1024


class Named(Protocol):
    """A row of a table of VM sizes."""

    @property
    def name(self) -> str: ...


class Sku(NamedTuple):
    """A VM size as the subscription lists it; *refused* is why the subscription cannot use it, or None."""

    facts: Mapping[str, Any]
    refused: str | None = None


def _transport() -> RequestsTransport:
    return transport.opened(connection_timeout=10, read_timeout=60)


class Subscription:
    """A client of the Azure Resource Manager; *settings* are for its SDKs, such as `base_url`."""

    def __init__(self, options: Any, login: TokenCredential, **settings: Any) -> None:
        self.url: str = options.batch_url or ""
        self.account_name: str = options.batch_account or _label(self.url, 0)
        common: dict[str, Any] = {
            "retry_policy": transport.BoundedRetries(),
            "per_retry_policies": [TokenHosts(options)],
            **settings,
        }
        self.compute = ComputeManagementClient(
            login, options.subscription, transport=_transport(), **common
        )
        self.resources = ResourceManagementClient(
            login, options.subscription, transport=_transport(), **common
        )

    @cached_property
    def account(self) -> Mapping[str, Any] | None:
        """Return the Batch account, with the field names of the service; None if it does not exist.

        https://learn.microsoft.com/rest/api/batchmanagement/batch-account/get
        """
        with translated("look for the Batch account"):
            wanted_type = f"resourceType eq '{ACCOUNTS}'"
            ask = self.resources.resources.list
            listed = collected("Resources_List", lambda: ask(filter=wanted_type, cls=elements))
            wanted = self.account_name.lower()
            ids = [account.id for account in listed if str(account.name).lower() == wanted]
            if not ids:
                return None
            if not ids[0]:
                raise NoAnswer("look for the Batch account: the reply lacks its id")
            resource = self.resources.resources.get_by_id(ids[0], api_version=API_VERSION)
        return {"location": resource.location, **(resource.properties or {})}

    def permissions(self, kind: str, name: str, below: str = "") -> list[Mapping[str, Any]]:
        """Return the permissions of the login on a resource, or what is *below* it; none if it is not shown.

        *name* is its name, or its id if *kind* is empty; without a name, it is the Batch account.

        https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource
        """
        with translated("look for the permissions of the login"):
            where = name if not kind else self._find_id(kind, name or self.account_name)
            if where is None:
                return []
            answer: Any = self.resources.resources.get_by_id(
                f"{where.lstrip('/')}{below}/providers/Microsoft.Authorization/permissions",
                api_version=PERMISSIONS,
                cls=lambda response, resource, headers: response.http_response.json(),
            )
        listed = answer.get("value") if isinstance(answer, Mapping) else None
        return [one for one in listed or () if isinstance(one, Mapping)]

    def _find_id(self, kind: str, name: str) -> str | None:
        ask = partial(
            self.resources.resources.list, filter=f"resourceType eq '{kind}'", cls=elements
        )
        for resource in collected("Resources_List", ask):
            if str(resource.name).lower() == name.lower() and resource.id:
                return str(resource.id)
        return None

    @property
    def mode(self) -> str | None:
        mode = (self.account or {}).get("poolAllocationMode")
        return MODES.get(str(mode))

    @property
    def region(self) -> str:
        """Return the region of the account, from its description or its URL."""
        there = (self.account or {}).get("location")
        return str(there or _label(self.url, 1)).lower().replace(" ", "")

    @cached_property
    def skus(self) -> Mapping[str, Sku]:
        """Return the VM sizes of the table that the region offers.

        https://learn.microsoft.com/rest/api/compute/resource-skus/list
        """
        with translated("list VM sizes"):
            return listed_skus(self.compute, self.region, vm_sizes.known)

    @cached_property
    def usages(self) -> Mapping[str, Usage]:
        """Return the used vCPUs and their limits by `vm_sizes.family_key`; `lowprioritycores` are spot vCPUs.

        https://learn.microsoft.com/rest/api/compute/usage/list
        """
        ask = self.compute.usage.list
        with translated("list quotas"):
            return {
                vm_sizes.family_key(str(usage.name.value)): Usage(
                    int(usage.current_value), int(usage.limit)
                )
                for usage in collected("Usage_List", lambda: ask(self.region, cls=elements))
                if usage.name and None not in (usage.current_value, usage.limit)
            }


def listed_skus(
    compute: ComputeManagementClient, region: str, known: Callable[[str], Named | None]
) -> dict[str, Sku]:
    """Return the VM sizes that *region* offers and *known* finds in its table, by their names in the table."""
    ask, wanted = compute.resource_skus.list, f"location eq '{region}'"
    return {
        named.name: _sku(sku)
        for sku in collected("ResourceSkus_List", lambda: ask(filter=wanted, cls=elements))
        if sku.resource_type == "virtualMachines" and (named := known(str(sku.name)))
    }


def _label(url: str, number: int) -> str:
    """Return a label of the host of *url*, counted from 0: https://ACCOUNT.REGION.batch.azure.com."""
    labels = (urlsplit(url).hostname or "").split(".")
    return labels[number] if len(labels) > number else ""


def _sku(sku: Any) -> Sku:
    """Return a VM size with its capabilities, whose values are text.

    If a size has fewer cores than its hardware, `vCPUsAvailable` is the number that it has.
    """
    can = {c.name: c.value for c in sku.capabilities or ()}
    facts: dict[str, Any] = {"family": sku.family}
    if cpus := can.get("vCPUsAvailable") or can.get("vCPUs"):
        facts["cpus"] = int(cpus)
    if memory := can.get("MemoryGB"):
        facts["memory_gib"] = float(memory)
    if gpus := can.get("GPUs"):
        facts["gpus"] = int(float(gpus))
    disks = [int(can.get(key) or 0) for key in ("MaxResourceVolumeMB", "NvmeDiskSizeInMiB")]
    if any(disks):
        facts["disk_gib"] = max(disks) // MIB_IN_GIB
    if "LowPriorityCapable" in can:
        facts["spot"] = can["LowPriorityCapable"] == "True"
    return Sku(facts, _refused(sku.restrictions or ()))


def _refused(restrictions: Iterable[Any]) -> str | None:
    """Return why the subscription cannot use a size in the region. Restrictions of single zones do not count."""
    for restriction in restrictions:
        if str(getattr(restriction.type, "value", restriction.type)) == "Location":
            return str(getattr(restriction.reason_code, "value", restriction.reason_code))
    return None


def survey(options: Any, subscription: Subscription | None = None) -> dict[str, Any]:
    """Return the facts about the account for plans; none if it cannot be read.

    They do not contain current usage, so that a plan is the same tomorrow.
    """
    facts: dict[str, Any] = {}
    try:
        asked = subscription or opened(options)
        if mode := asked.mode:
            facts["pool_allocation"] = mode
        there = {name: dict(sku.facts) for name, sku in asked.skus.items() if not sku.refused}
        if there:  # an empty list is from an unknown region, and then the table is better
            facts["machines"] = there
    except RunspecError:  # a plan works without the account: what was read so far is used
        return facts
    return facts


def opened(options: Any) -> Subscription:
    """Return a client of the subscription, with the login of this machine."""
    from runspec_azure.session import transport

    cloud = clouds.of(options)
    return Subscription(
        options,
        transport.find_login(cloud),
        base_url=options.arm_url or cloud.manager_url,
        credential_scopes=[cloud.manager_scope],
        retry_total=1,
    )


# Findings that the doctors of all Azure providers share: requests, free quota, and offered VM sizes.


MORE = "request it (portal: Quotas, or a support request), or set another vm_size"


class Usage(NamedTuple):
    """A quota: how much of it is used, and its limit."""

    used: int
    limit: int


class Offered(Protocol):
    """A VM size in a region; *refused* is why the subscription cannot use it, or None."""

    @property
    def refused(self) -> str | None: ...


def asked(ask: Callable[[], Any], good: str, hint: str) -> tuple[Finding, Any]:
    """Return a finding about *ask*, and its result; None if it was refused."""
    try:
        answer = ask()
    except RunspecError as exc:
        return Finding(exc.message, False, exc.hint or hint), None
    return Finding(good, True), answer


def free(usage: Usage, what: str, least: int, hint: str) -> Finding:
    """Return a finding about how much of *what* is free; it is a problem if less than *least* is."""
    left = usage.limit - usage.used
    return Finding(f"{left:,} of {usage.limit:,} {what} are free", left >= least, hint)


def sizes(
    names: Collection[str], there: Mapping[str, Offered], where: str, *, needed: bool
) -> Iterator[Finding]:
    """Yield findings about which of *names* the region *where* offers; missing ones are a problem if *needed*."""
    missing = [name for name in names if name not in there]
    closed = {name: there[name].refused for name in names if name in there}
    refused = [f"{name} ({why})" for name, why in closed.items() if why is not None]
    if missing:
        yield Finding(f"not offered in {where}: {', '.join(missing)}", not needed, MORE)
    if refused:
        message = f"not available to this subscription in {where}: {', '.join(refused)}"
        yield Finding(message, not needed, MORE)
    if names and not missing and not refused:
        yield Finding(f"{where} offers all {len(names)} VM sizes", True)
