"""What a subscription says of itself: its Batch account, the machines it may have, its quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from azure.core.credentials import TokenCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient

from runspec_azure.discover.findings import Usage
from runspec_azure.errors import translated
from runspec_azure.resources import vm_sizes
from runspec_azure.session import clouds
from runspec_azure.session.responses import collected, elements
from runspec_azure.session.token_hosts import TokenHosts
from runspec_jobs.provider import NoAnswer, RunspecError

ACCOUNTS = "Microsoft.Batch/batchAccounts"
API_VERSION = "2025-06-01"
MODES = {"UserSubscription": "user-subscription", "BatchService": "batch-service"}
MIB_IN_GIB = 1024


class Named(Protocol):
    """A row of a table of machines."""

    @property
    def name(self) -> str: ...


class Sku(NamedTuple):
    """A machine as the subscription may have it. *refused* says why it may not."""

    facts: Mapping[str, Any]
    refused: str | None = None


class Subscription:
    """Asks the Resource Manager; *settings* are for its SDKs, such as `base_url`."""

    def __init__(self, options: Any, login: TokenCredential, **settings: Any) -> None:
        self.url: str = options.batch_url or ""
        self.account_name: str = options.batch_account or _label(self.url, 0)
        common: dict[str, Any] = {
            "connection_timeout": 10,
            "read_timeout": 60,
            "per_retry_policies": [TokenHosts(options)],
            **settings,
        }
        self._compute = ComputeManagementClient(login, options.subscription, **common)
        self._resources = ResourceManagementClient(login, options.subscription, **common)

    @cached_property
    def account(self) -> Mapping[str, Any] | None:
        """Return the Batch account, in the words of the service; None where it is not there.

        https://learn.microsoft.com/rest/api/batchmanagement/batch-account/get
        """
        with translated("look for the Batch account"):
            wanted_type = f"resourceType eq '{ACCOUNTS}'"
            ask = self._resources.resources.list
            listed = collected("Resources_List", lambda: ask(filter=wanted_type, cls=elements))
            wanted = self.account_name.lower()
            ids = [one.id for one in listed if str(one.name).lower() == wanted]
            if not ids:
                return None
            if not ids[0]:
                raise NoAnswer("look for the Batch account: the answer lacks its id")
            found = self._resources.resources.get_by_id(ids[0], api_version=API_VERSION)
        return {"location": found.location, **(found.properties or {})}

    @property
    def mode(self) -> str | None:
        found = (self.account or {}).get("poolAllocationMode")
        return MODES.get(str(found))

    @property
    def region(self) -> str:
        """Return where the account is: its URL says so, or it itself."""
        there = (self.account or {}).get("location")
        return str(there or _label(self.url, 1)).lower().replace(" ", "")

    @cached_property
    def skus(self) -> Mapping[str, Sku]:
        """Return the machines of the table that the region has.

        https://learn.microsoft.com/rest/api/compute/resource-skus/list
        """
        with translated("list the sizes of machines"):
            return listed_skus(self._compute, self.region, vm_sizes.known)

    @cached_property
    def usages(self) -> Mapping[str, Usage]:
        """Return the use of vCPUs and its bounds, by `machines.family_key`; `lowprioritycores` is spot.

        https://learn.microsoft.com/rest/api/compute/usage/list
        """
        ask = self._compute.usage.list
        with translated("list quotas"):
            return {
                vm_sizes.family_key(str(one.name.value)): Usage(
                    int(one.current_value), int(one.limit)
                )
                for one in collected("Usage_List", lambda: ask(self.region, cls=elements))
                if one.name and None not in (one.current_value, one.limit)
            }


def listed_skus(
    compute: ComputeManagementClient, region: str, known: Callable[[str], Named | None]
) -> dict[str, Sku]:
    """Return the machines of a table that *region* has, by their names there."""
    ask, wanted = compute.resource_skus.list, f"location eq '{region}'"
    return {
        found.name: _sku(one)
        for one in collected("ResourceSkus_List", lambda: ask(filter=wanted, cls=elements))
        if one.resource_type == "virtualMachines" and (found := known(str(one.name)))
    }


def _label(url: str, number: int) -> str:
    """Return a part of the host: https://ACCOUNT.REGION.batch.azure.com."""
    labels = (urlsplit(url).hostname or "").split(".")
    return labels[number] if len(labels) > number else ""


def _sku(one: Any) -> Sku:
    """Read a size; everything it can do is text.

    Of a size with fewer cores than its machine, `vCPUsAvailable` are those that are there.
    """
    can = {c.name: c.value for c in one.capabilities or ()}
    facts: dict[str, Any] = {"family": one.family}
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
    return Sku(facts, _refused(one.restrictions or ()))


def _refused(restrictions: Iterable[Any]) -> str | None:
    """A restriction of some zones leaves the others; one of the location leaves nothing."""
    for one in restrictions:
        if str(getattr(one.type, "value", one.type)) == "Location":
            return str(getattr(one.reason_code, "value", one.reason_code))
    return None


def survey(options: Any, subscription: Subscription | None = None) -> dict[str, Any]:
    """Return what the account says of itself, for plans; nothing where it cannot be asked.

    How much is in use is left out, since a plan is the same tomorrow.
    """
    found: dict[str, Any] = {}
    try:
        asked = subscription or opened(options)
        if mode := asked.mode:
            found["pool_allocation"] = mode
        there = {name: dict(sku.facts) for name, sku in asked.skus.items() if not sku.refused}
        if there:  # a place that has none at all is no place, and the table knows more
            found["machines"] = there
    except RunspecError:
        return found
    return found


def opened(options: Any) -> Subscription:
    """Return the subscription, asked by whoever is logged in here."""
    from runspec_azure.session import login

    cloud = clouds.of(options)
    return Subscription(
        options,
        login.found(cloud),
        base_url=options.arm_url or cloud.manager_url,
        credential_scopes=[cloud.manager_scope],
        retry_total=1,
    )
