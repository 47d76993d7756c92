#!/usr/bin/env python3
"""Make the schemas of the Kubernetes emulator from what a kube-apiserver serves at /openapi/v3.

    tools/kubernetes_schemas.py FOLDER > emulators/runspec_emulators/kubernetes/api/schemas.json

FOLDER has the documents as `*.openapi.json`, such as those of api/v1, apis/batch/v1 and apis/authorization.k8s.io/v1.
Descriptions are left out, and so is every type that no resource of the emulator has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOTS = (
    "Namespace Node Pod Service Secret ConfigMap Event PersistentVolumeClaim ResourceQuota LimitRange ServiceAccount "
    "Job SelfSubjectAccessReview SelfSubjectRulesReview Eviction DeleteOptions"
).split()
SCALARS = {"Quantity": "quantity", "IntOrString": "int-or-string", "FieldsV1": "any"}
MERGE_KEY, MERGE = "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy"


def main(folder: Path) -> dict[str, Any]:
    documents = [json.loads(file.read_text()) for file in sorted(folder.glob("*.openapi.json"))]
    schemas: dict[str, Any] = {}
    for document in documents:
        schemas |= {short(k): v for k, v in document["components"]["schemas"].items()}
    kinds: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in kinds:
            kinds[name] = kind(schemas[name], waiting)
    version = documents[0]["info"]["version"]
    source = f"/openapi/v3 of kube-apiserver ({version}), by tools/kubernetes_schemas.py"
    return {"source": source, "kinds": dict(sorted(kinds.items()))}


def short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def kind(schema: dict[str, Any], waiting: list[str]) -> dict[str, Any]:
    fields = {k: field(v, waiting) for k, v in schema.get("properties", {}).items()}
    required = schema.get("required")
    return {"fields": fields, **({"required": required} if required else {})}


def field(schema: dict[str, Any], waiting: list[str]) -> dict[str, Any]:
    """Return the form of a field: a reference, a list, a map or a scalar."""
    if "allOf" in schema:
        schema = {**schema["allOf"][0], **{k: v for k, v in schema.items() if k != "allOf"}}
    if "$ref" in schema:
        name = short(schema["$ref"].rsplit("/", 1)[-1])
        if name in SCALARS:
            return {"type": SCALARS[name]}
        if name in ("Time", "MicroTime"):
            return {"type": "time"}
        waiting.append(name)
        return {"ref": name}
    if schema.get("type") == "array":
        key = {"key": schema[MERGE_KEY]} if MERGE in schema and MERGE_KEY in schema else {}
        return {"items": field(schema["items"], waiting), **key}
    if "additionalProperties" in schema:
        return {"map": field(schema["additionalProperties"], waiting)}
    kept: dict[str, Any] = {k: v for k, v in schema.items() if k in ("type", "format", "enum")}
    return kept or {"type": "any"}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1])), separators=(",", ":"), sort_keys=True))
