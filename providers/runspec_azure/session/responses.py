"""What an answer of Azure Batch has to hold. Everything else may be missing, null or new.

The description requires almost nothing of answers:
https://github.com/Azure/azure-rest-api-specs (specification/batch, CloudJob, CloudTask, CloudPool)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runspec_jobs.provider import NoAnswer

Found = Mapping[str, Any]

# Without these members nothing can be said of a job or a task.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "Job_Get": ("state",),
    "Job_List": ("id", "state"),
    "Pool_List": ("id", "state"),
    "Task_Get": ("id", "state"),
    "Task_List": ("id", "state"),
}


def given(value: Any) -> Any:
    """Return *value* without the members that are null: null says that a member is not given."""
    if isinstance(value, dict):
        return {key: given(one) for key, one in value.items() if one is not None}
    return [given(one) for one in value] if isinstance(value, list) else value


def elements(found: Iterable[Any] | None) -> list[Any]:
    """Return what an SDK found in a page of a list, which may be null; the SDKs themselves end with TypeError then."""
    return [each for each in found or () if each is not None]


def collected(what: str, ask: Callable[[], Iterable[Any]]) -> list[Any]:
    """Return all that the pages of an SDK hold. Raises NoAnswer for a page that is empty or no list.

    The SDKs look into a page without asking whether there is one. Nothing of ours is called here.
    """
    try:
        return list(ask())
    except (AttributeError, TypeError) as exc:
        raise NoAnswer(f"{what}: the reply was cut off") from exc


def one(operation: str, value: Any) -> Found:
    """Return the answer to *operation*, which is one object. Raises NoAnswer where it is not whole."""
    if not isinstance(value, dict):
        raise NoAnswer(f"{operation}: the reply was cut off")
    found: Found = given(value)
    _complete(operation, found)
    return found


def listed(operation: str, value: Any) -> tuple[list[Found], str]:
    """Return what one page of a list has, and the link to the next page, "" where it is the last one."""
    if not isinstance(value, dict) or "value" not in value:
        raise NoAnswer(f"{operation}: the reply was cut off")
    page = given(value)
    found: list[Found] = page.get("value", [])
    for each in found:
        _complete(operation, each)
    return found, str(page.get("odata.nextLink", ""))


def _complete(operation: str, found: Found) -> None:
    for key in NEEDED.get(operation, ()):
        if found.get(key, "") == "":
            raise NoAnswer(f"{operation}: the answer holds no '{key}'")
