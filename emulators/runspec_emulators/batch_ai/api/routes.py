"""Which operations there are, and where: read out of azure-mgmt-batchai, whose methods hold their paths."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import NamedTuple

from azure.mgmt.batchai import operations

# The Resources API (Microsoft.Resources), as far as groups go, and what is in them.
# https://learn.microsoft.com/rest/api/resources/resource-groups
# https://learn.microsoft.com/rest/api/resources/resources/list-by-resource-group
GROUP = "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}"
GROUPS = {
    "CheckExistence": ("HEAD", GROUP),
    "CreateOrUpdate": ("PUT", GROUP),
    "Delete": ("DELETE", GROUP),
    "Get": ("GET", GROUP),
    "List": ("GET", "/subscriptions/{subscriptionId}/resourcegroups"),
}
# azure-mgmt-batchai 7.0.0 has lost these two; the official description has them.
FILE_SERVER = f"{GROUP}/providers/Microsoft.BatchAI/workspaces/{{workspaceName}}/fileServers/{{fileServerName}}"
LOST = {
    "FileServers_Delete": ("DELETE", FILE_SERVER),
    "FileServers_Get": ("GET", FILE_SERVER),
}
METHODS = {"create": "PUT", "update": "PATCH", "delete": "DELETE", "terminate": "POST"}
VERSION = "2018-05-01"


class Route(NamedTuple):
    """The method and path of one operation."""

    method: str
    path: re.Pattern[str]
    operation: str
    service: str
    url: str


@cache
def routes() -> tuple[Route, ...]:
    """Return every operation of Batch AI, and those of resource groups."""
    routes = [
        route(method, url, f"ResourceGroups_{name}", "resources")
        for name, (method, url) in GROUPS.items()
    ]
    routes.append(route("GET", f"{GROUP}/resources", "Resources_ListByResourceGroup", "resources"))
    routes += [route(method, url, name, "batchai") for name, (method, url) in LOST.items()]
    for holder, kind in vars(operations).items():
        if not inspect.isclass(kind):
            continue
        for name, function in vars(kind).items():
            if hasattr(function, "metadata") and not name.startswith("begin_"):
                word = name.removeprefix("_").removesuffix("_initial")
                operation = f"{holder.removesuffix('Operations') or 'Operations'}_{camel(word)}"
                routes.append(
                    route(method_of(word), function.metadata["url"], operation, "batchai")
                )
    return tuple(routes)


def method_of(word: str) -> str:
    """Return the HTTP method of an operation: that of the official description.

    >>> [method_of(w) for w in ("create", "list_by_workspace", "list_output_files", "get")]
    ['PUT', 'GET', 'POST', 'GET']
    """
    if word in METHODS:
        return METHODS[word]
    return "POST" if word.startswith(("list_output", "list_remote")) else "GET"


def camel(word: str) -> str:
    return "".join(part.capitalize() for part in word.split("_"))


def route(method: str, url: str, operation: str, service: str) -> Route:
    """ARM does not tell upper from lower case in paths, names apart."""
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(url))
    return Route(method, re.compile(pattern, re.IGNORECASE), operation, service, url)
