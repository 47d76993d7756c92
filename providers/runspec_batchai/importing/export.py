"""Export a plan as files for `az batchai cluster create -f` and `az batchai job create -f`.

The files leave out what this tool filled in: the cluster of a job, and the keys of accounts.
https://github.com/Azure/azure-cli/tree/azure-cli-2.0.60/src/command_modules/azure-cli-batchai
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_batchai.importing.draft import KEY_GAP
from runspec_batchai.store_volumes import LOGS, STORE
from runspec_jobs.provider import Step
from runspec_jobs.provider.types import Exported

KEY_OF_TOOL = {"$secret": "env:AZURE_BATCHAI_STORAGE_KEY"}
SCHEMA = "https://raw.githubusercontent.com/Azure/BatchAI/master/schemas/2018-05-01/{}.json"


def exported(steps: Sequence[Step]) -> Exported:
    """Return the files by name, and notes about them."""
    files: dict[str, str] = {}
    notes: list[str] = []
    known = _account(steps)
    for step in steps:
        if step.do.operation not in ("Clusters_Create", "Jobs_Create"):
            continue
        kind = "cluster" if step.do.operation == "Clusters_Create" else "job"
        name = f"{step.id}.json"
        body = dict(step.do.params["body"]["properties"])
        if kind == "job":
            del body["cluster"]
        whole = {"$schema": SCHEMA.format(kind), "properties": _without(body, name, known, notes)}
        files[name] = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    if not any(name.startswith("cluster") for name in files):
        notes.append("no cluster.json: the job uses the existing cluster of the profile")
    for step in steps:
        if step.do.operation == "upload_folder":
            where = "{container}/{prefix}".format(**step.do.params["path"])
            notes.append(f"{step.title}: the job reads it from {where}")
    return Exported(files, tuple(dict.fromkeys(notes)))


def _account(steps: Sequence[Step]) -> str | None:
    """Return the account whose key the tool fills in: it has one key, which replaces every placeholder of a key.

    This is the account of the profile's own volumes, else one with the key that the tool reads, else the first.
    """
    bodies = [s.do.params["body"]["properties"] for s in steps if s.do.operation == "Jobs_Create"]
    bodies += [
        s.do.params["body"]["properties"] for s in steps if s.do.operation == "Clusters_Create"
    ]
    shared = (body.get("nodeSetup", {}).get("mountVolumes", {}) for body in bodies)
    volumes = [*(body.get("mountVolumes", {}) for body in bodies), *shared]
    accounts = [
        account
        for some in volumes
        for kind in some.values()
        for account in kind
        if "accountName" in account
    ]
    own = [account for account in accounts if account["relativeMountPath"] in (STORE, LOGS)]
    read_by_tool = [
        account for account in accounts if account["credentials"].get("accountKey") == KEY_OF_TOOL
    ]
    return next((str(account["accountName"]) for account in (*own, *read_by_tool, *accounts)), None)


def _without(value: Any, name: str, account: str | None, notes: list[str]) -> Any:
    """Return *value* with a placeholder for each secret, which the tool or the user fills in."""
    if isinstance(value, list):
        return [_without(item, name, account, notes) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, item in value.items():
        if key == "credentials" and "accountName" in value:
            kept[key] = _credentials(item, str(value["accountName"]), name, account, notes)
        elif not (isinstance(item, Mapping) and "$secret" in item):
            kept[key] = _without(item, name, account, notes)
        else:
            kept[key] = _gap(value.get("name", key), name, notes)
    return kept


def _credentials(
    value: Mapping[str, Any], of: str, name: str, account: str | None, notes: list[str]
) -> Mapping[str, Any]:
    if "accountKey" not in value:
        return value  # the key is in a key vault
    return {"accountKey": KEY_GAP if of == account else _gap(f"{of.upper()}_KEY", name, notes)}


def _gap(what: str, name: str, notes: list[str]) -> str:
    notes.append(f"{name}: replace <{what}> by the secret")
    return f"<{what}>"
