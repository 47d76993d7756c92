"""A setup as a template of the Azure Resource Manager, and the actions of whoever runs a setup.

https://learn.microsoft.com/azure/azure-resource-manager/templates/syntax
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_azure.batch.setup.options import BatchSetup
from runspec_azure.batch.setup.steps import MARK, Names, plan
from runspec_azure.batch.setup.undo_check import OTHER_DATA
from runspec_azure.session.clouds import PUBLIC
from runspec_jobs.provider import Setup
from runspec_jobs.provider.types import Exported

# These are the same in all clouds: https://learn.microsoft.com/azure/azure-resource-manager/templates/syntax
SCHEMAS = f"https://schema.{PUBLIC.manager}/schemas"
SCHEMA = f"{SCHEMAS}/2018-05-01/subscriptionDeploymentTemplate.json#"
INNER = f"{SCHEMAS}/2019-04-01/deploymentTemplate.json#"
DEPLOYMENTS = "2021-04-01"
MAKER = "template"  # in the tag of a setup: no setup has made it, so none deletes it
GROUP_TYPE = "Microsoft.Resources/resourceGroups"
ANYONE = "00000000-0000-0000-0000-000000000000"


def read_type(path: str) -> tuple[str, str]:
    """Return the type of a resource, and its name as a template has it.

    >>> read_type("/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a/blobServices/b")
    ('Microsoft.Storage/storageAccounts/blobServices', 'a/b')
    """
    if "/providers/" not in path:
        return GROUP_TYPE, path.rpartition("/")[2]
    words = path.rpartition("/providers/")[2].split("/")
    return "/".join([words[0], *words[1::2]]), "/".join(words[2::2])


def export(setup: Setup) -> Exported:
    location = next(step for step in setup.steps if step.id == "group").do.params["body"][
        "location"
    ]
    deploy = f"az deployment sub create --location {location} --template-file FILE"
    told = f"--set resource_group={setup.settings['resource_group']} --set location={location}"
    notes = (
        f"whoever may make roles runs: {deploy}",
        f"then: runspec setup azure-batch {told} SETTINGS, which finds all of it and writes the profile",
    )
    return Exported({"setup.json": json.dumps(write_template(setup), indent=2) + "\n"}, notes)


def write_template(setup: Setup) -> dict[str, Any]:
    """Return the template: a resource group, and a deployment of everything else in it."""
    group, *others = setup.steps
    inner = {
        "$schema": INNER,
        "contentVersion": "1.0.0.0",
        "resources": [_write_resource(step.do.params, others) for step in others],
    }
    name = read_type(group.do.params["path"])[1]
    nested = {
        "type": "Microsoft.Resources/deployments",
        "apiVersion": DEPLOYMENTS,
        "name": "runspec",
        "resourceGroup": name,
        "dependsOn": [f"[subscriptionResourceId('{GROUP_TYPE}', '{name}')]"],
        "properties": {"mode": "Incremental", "template": inner},
    }
    resources = [_write_resource(group.do.params, ()), nested]
    return {"$schema": SCHEMA, "contentVersion": "1.0.0.0", "resources": resources}


def _write_resource(params: Mapping[str, Any], others: Any) -> dict[str, Any]:
    path = params["path"]
    kind, name = read_type(path)
    marks = f'"({MARK}|{MARK.replace("-", "_")})": "[^"]*"'
    body = json.loads(re.sub(marks, rf'"\1": "{MAKER}"', json.dumps(params["body"])))
    resource = {"type": kind, "apiVersion": params["version"], "name": name, **body}
    identity = next((s.do.params["path"] for s in others if s.id == "identity"), None)
    if kind.endswith("/roleAssignments"):
        scope = path.rpartition("/providers/")[0]
        resource["scope"] = scope
        properties = dict(resource["properties"])
        if isinstance(properties["principalId"], Mapping):
            properties["principalId"] = f"[reference('{identity}', '2023-01-31').principalId]"
        resource["properties"] = properties
    text = json.dumps(resource)
    needed = [s.do.params["path"] for s in others if s.do.params["path"] != path]
    depends = [one for one in needed if one in text or path.startswith(f"{one}/")]
    return resource | ({"dependsOn": depends} if depends else {})


def make_policy(options: BatchSetup) -> dict[str, Any]:
    """Return a custom role with the actions of a setup and of its undoing. Nothing is asked.

    https://learn.microsoft.com/azure/role-based-access-control/resource-provider-operations
    """
    survey = {
        "subscription": options.subscription or ANYONE,
        "person": ANYONE,
        "location": options.location or "anywhere",
        "quotas": {},
    }
    steps = plan(options, survey, "").steps
    names = Names(options, survey)
    kinds = dict.fromkeys(read_type(step.do.params["path"])[0] for step in steps)
    return {
        "Name": "runspec setup",
        "IsCustom": True,
        "Description": "Makes and deletes what jobs of runspec need.",
        "Actions": sorted({action for kind in kinds for action in _list_actions(kind)}),
        "AssignableScopes": [names.subscription],
    }


def _list_actions(kind: str) -> Iterator[str]:
    kind = kind.replace(GROUP_TYPE, "Microsoft.Resources/subscriptions/resourceGroups")
    yield from (f"{kind}/{verb}" for verb in ("read", "write", "delete"))
    if kind.endswith("/storageAccounts"):
        yield f"{kind}/listKeys/action"
        yield from (f"{kind}/{end.replace('/default', '')}/read" for end in OTHER_DATA)
    if kind.endswith("/batchAccounts"):
        yield f"{kind}/pools/read"
        yield "Microsoft.Batch/locations/quotas/read"
        yield "Microsoft.Resources/subscriptions/read"
        yield "Microsoft.Resources/subscriptions/resourceGroups/resources/read"
