"""Names of what is made, by the content of what it is, and requests in the services' own words."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Protocol

from runspec_jobs.provider import Request, Spec


def short_hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def named(word: str, value: Any) -> str:
    """Give `runspec-WORD-HASH`: equal content has an equal name, and runs share it."""
    return f"runspec-{word}-{short_hash(value)}"


class Account(Protocol):
    """What options say of the Batch account."""

    @property
    def batch_url(self) -> str | None: ...

    @property
    def batch_account(self) -> str | None: ...


def account(options: Account) -> str:
    """Give the name of the Batch account, which its URL begins with."""
    host = (options.batch_url or "").partition("//")[2]
    return options.batch_account or host.partition(".")[0]


def setting(spec: Spec, key: str) -> tuple[str, ...]:
    """Give the place of a setting of Azure Batch: in the spec, where it says it, or that of the provider."""
    own = spec.providers.get("azure-batch", {})
    return ("providers", "azure-batch", key) if key in own else ("provider",)


def batch(operation: str, path: dict[str, str] | None = None, body: Any = None) -> Request:
    """Give a call of Azure Batch, by its operationId in the official description."""
    params: dict[str, Any] = {"path": path} if path else {}
    return Request("batch", operation, params if body is None else {**params, "body": body})


def blob(operation: str, container: str, key: str, body: Any = None) -> Request:
    """Give a call of Blob storage, by its operationId in the official description."""
    path = {"container": container, "blob": key}
    return Request("blob", operation, {"path": path} | ({} if body is None else {"body": body}))


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Give *values* as the service writes metadata and variables.

    >>> pairs({"a": "1"})
    [{'name': 'a', 'value': '1'}]
    """
    return [{"name": name, "value": value} for name, value in values.items()]
