"""Check the answers of Azure Batch for the members that runspec needs. All others may be missing, null or new.

The official description requires almost no members:
https://github.com/Azure/azure-rest-api-specs (specification/batch, CloudJob, CloudTask, CloudPool)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runspec_jobs.provider import NoAnswer

Found = Mapping[str, Any]

# Without these members, the state of a job or a task is unknown.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "Job_Get": ("state",),
    "Job_List": ("id", "state"),
    "Pool_List": ("id", "state"),
    "Task_Get": ("id", "state"),
    "Task_List": ("id", "state"),
}


def given(value: Any) -> Any:
    """Return *value* without the members that are null, which means that they are not set."""
    if isinstance(value, dict):
        return {key: given(inner) for key, inner in value.items() if inner is not None}
    return [given(item) for item in value] if isinstance(value, list) else value


def elements(items: Iterable[Any] | None) -> list[Any]:
    """Return the items of a page of a list, which may be null; for that the SDKs themselves would raise TypeError."""
    return [each for each in items or () if each is not None]


def collected(action: str, ask: Callable[[], Iterable[Any]]) -> list[Any]:
    """Return the items of all pages of an SDK. Raise NoAnswer if a page is empty or not a list.

    The SDKs do not check that there is a page. *ask* calls only the SDK, so its errors are about a page.
    """
    try:
        return list(ask())
    except (AttributeError, TypeError) as exc:
        raise NoAnswer(f"{action}: the reply was cut off") from exc


def one(operation: str, value: Any) -> Found:
    """Return the answer to *operation*, which is one object. Raise NoAnswer if it is incomplete."""
    if not isinstance(value, dict):
        raise NoAnswer(f"{operation}: the reply was cut off")
    item: Found = given(value)
    complete(operation, item)
    return item


def listed(operation: str, value: Any) -> tuple[list[Found], str]:
    """Return the items of one page of a list, and the link to the next page, which is empty for the last one."""
    if not isinstance(value, dict) or "value" not in value:
        raise NoAnswer(f"{operation}: the reply was cut off")
    page = given(value)
    items: list[Found] = page.get("value", [])
    for each in items:
        complete(operation, each)
    return items, str(page.get("odata.nextLink", ""))


def complete(operation: str, answer: Found) -> None:
    for key in NEEDED.get(operation, ()):
        if answer.get(key, "") == "":
            raise NoAnswer(f"{operation}: the reply lacks '{key}'")
