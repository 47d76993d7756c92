"""What the Resource Manager's description, and its SDK's models, have against a pool: a closed world."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema
from azure.mgmt.batch.models import Pool

from runspec_emulators.azure_services.sdk_models import problems
from tests.support.official_descriptions import DATA

SCHEMA = DATA / "azure-batch" / "arm-2025-06-01.schema.json"


def by_the_sdk(body: Any) -> list[str]:
    return [f"{found.path}: {found.reason}" for found in problems(_known(body), Pool)]


def by_the_description(body: Any) -> list[str]:
    """Give what the description has against *body*; nothing where it is not at hand."""
    if not SCHEMA.exists():
        return []
    whole = {
        "name": "pool",
        "type": "Microsoft.Batch/batchAccounts/pools",
        "apiVersion": "2025-06-01",
        **_known(body),
    }
    found = jsonschema.Draft4Validator(_schema()).iter_errors(whole)
    return [f"{error.json_path}: {error.message}" for error in found]


@functools.cache
def _schema() -> Any:
    given = json.loads(SCHEMA.read_text())
    found = _closed(given["resourceDefinitions"]["batchAccounts_pools"])
    return {**found, "definitions": _closed(given["definitions"])}


def _closed(value: Any) -> Any:
    """Give a schema without the templates' expressions, and with no property but those it names."""
    if isinstance(value, list):
        return [_closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "oneOf" in value and "expression" in json.dumps(value["oneOf"][-1]):
        return _closed(value["oneOf"][0])
    found = {key: _closed(one) for key, one in value.items()}
    if found.get("type") == "object" and found.get("properties"):
        found.setdefault("additionalProperties", False)
    return found


def _known(value: Any) -> Any:
    """Give *value* with text for what is known when it is sent."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith("$"):
            return "text"
        return {key: _known(one) for key, one in value.items()}
    return [_known(one) for one in value] if isinstance(value, list) else value
