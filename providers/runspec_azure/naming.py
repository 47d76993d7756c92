"""Build requests by the operation names of the services, and the paths of settings for problems."""

from __future__ import annotations

from typing import Any, Protocol

from runspec_jobs.provider import Request, Spec


class Account(Protocol):
    """The options that identify the Batch account."""

    @property
    def batch_url(self) -> str | None: ...

    @property
    def batch_account(self) -> str | None: ...


def account(options: Account) -> str:
    """Return the name of the Batch account: `batch_account`, or else the first label of the host of its URL."""
    host = (options.batch_url or "").partition("//")[2]
    return options.batch_account or host.partition(".")[0]


def setting(spec: Spec, key: str) -> tuple[str, ...]:
    """Return the path of a setting of Azure Batch for a problem: in the spec if it sets *key*, else the provider."""
    settings = spec.providers.get("azure-batch", {})
    return ("providers", "azure-batch", key) if key in settings else ("provider",)


def batch(operation: str, path: dict[str, str] | None = None, body: Any = None) -> Request:
    """Return a request to Azure Batch; *operation* is its operationId in the official description."""
    params: dict[str, Any] = {"path": path} if path else {}
    return Request("batch", operation, params if body is None else {**params, "body": body})


def blob(operation: str, container: str, key: str, body: Any = None) -> Request:
    """Return a request to Blob storage; *operation* is its operationId in the official description."""
    path = {"container": container, "blob": key}
    return Request("blob", operation, {"path": path} | ({} if body is None else {"body": body}))


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return *values* as a list of names and values, the format of the service for metadata and variables.

    >>> pairs({"a": "1"})
    [{'name': 'a', 'value': '1'}]
    """
    return [{"name": name, "value": value} for name, value in values.items()]
