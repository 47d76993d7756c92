"""A plan as the files that `az batchai cluster create -f` and `az batchai job create -f` took.

What the command line tool filled in is left to it: the cluster of a job, and the keys of accounts.
https://github.com/Azure/azure-cli/tree/azure-cli-2.0.60/src/command_modules/azure-cli-batchai
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runspec.provider import Exported, Step
from runspec_azure.batchai.draft import KEY_GAP

SCHEMA = "https://raw.githubusercontent.com/Azure/BatchAI/master/schemas/2018-05-01/{}.json"


def exported(steps: Sequence[Step]) -> Exported:
    """Give the files by name, and what is to be said of them."""
    files: dict[str, str] = {}
    notes: list[str] = []
    for step in steps:
        if step.do.operation not in ("Clusters_Create", "Jobs_Create"):
            continue
        kind = "cluster" if step.do.operation == "Clusters_Create" else "job"
        name = f"{step.id}.json"
        body = dict(step.do.params["body"]["properties"])
        if kind == "job":
            del body["cluster"]
        whole = {"$schema": SCHEMA.format(kind), "properties": _without(body, name, notes)}
        files[name] = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    if not any(name.startswith("cluster") for name in files):
        notes.append("the profile names a cluster: there is no cluster.json")
    for step in steps:
        if step.do.operation == "upload_folder":
            where = "{container}/{prefix}".format(**step.do.params["path"])
            notes.append(f"{step.title}: the job reads it from {where}")
    return Exported(files, tuple(dict.fromkeys(notes)))


def _without(value: Any, name: str, notes: list[str]) -> Any:
    """Give *value* with what the tool fills in, or a person has to, where a secret belongs."""
    if isinstance(value, list):
        return [_without(item, name, notes) for item in value]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        if not (isinstance(item, Mapping) and "$secret" in item):
            found[key] = _without(item, name, notes)
        elif key == "accountKey":
            found[key] = KEY_GAP
        else:
            what = value.get("name", key)
            found[key] = f"<{what}>"
            notes.append(f"{name}: put the secret in where <{what}> stands")
    return found
