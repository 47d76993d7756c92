"""What a setup finds before it plans: the subscription, who is logged in, and quotas of Azure Batch."""

from __future__ import annotations

from typing import Any

from runspec_azure.batch.setup.manager import Manager
from runspec_azure.batch.setup.options import BatchSetup
from runspec_azure.batch.setup.steps import BATCH, Names
from runspec_jobs.provider import UsageError

SUBSCRIPTIONS = "2022-12-01"


def survey(options: BatchSetup) -> dict[str, Any]:
    """Return the subscription, the login, and the quotas of the location and of the account, if that exists."""
    if options.location is None:
        raise UsageError("no location", "name it: --set location=westeurope")
    if options.pool_allocation == "user-subscription":
        hint = "make it by the portal, which also makes its key vault, and set batch_url"
        raise UsageError("setup makes no Batch account that allocates in your subscription", hint)
    manager = Manager(options)
    found: dict[str, Any] = {
        "subscription": options.subscription or _find_subscription(manager),
        "person": manager.read_person(),
        "location": options.location,
    }
    names = Names(options, found)
    where = f"{names.subscription}/providers/Microsoft.Batch/locations/{options.location}/quotas"
    quotas = manager.get(where, BATCH)
    account = manager.get(names.batch, BATCH)
    properties = (account or {}).get("properties") or {}
    return found | {
        "quotas": {
            "accounts": None if quotas is None else quotas.get("accountQuota"),
            "dedicated": properties.get("dedicatedCoreQuota"),
            "spot": properties.get("lowPriorityCoreQuota"),
        }
    }


def _find_subscription(manager: Manager) -> str:
    """https://learn.microsoft.com/rest/api/resources/subscriptions/list"""
    rows = manager.list("/subscriptions", SUBSCRIPTIONS, ("subscriptionId",))
    if len(rows) != 1:
        some = ", ".join(str(row["subscriptionId"]) for row in rows[:3])
        hint = f"name one: --set subscription=ID{f' ({some})' if some else ''}"
        raise UsageError(f"the login has {len(rows)} subscriptions", hint)
    return str(rows[0]["subscriptionId"])
