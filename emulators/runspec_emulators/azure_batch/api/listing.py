"""Lists: pages, $filter and $select, and lists that lag behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.resource import Resource, Response
from runspec_emulators.azure_batch.world import World

T = TypeVar("T", bound=Resource)
MOST = 1000
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
STARTS = re.compile(r"startswith\(\s*([\w/]+)\s*,\s*'((?:[^']|'')*)'\s*\)")
TERM = re.compile(r"([\w/]+)\s+(eq|ne|lt|le|gt|ge)\s+(?:datetime)?('(?:[^']|'')*'|\w+)")


def invalid(name: str, value: str, reason: str) -> ServiceError:
    return ServiceError(
        "InvalidQueryParameterValue",
        "Value for one of the query parameters specified in the request URI is invalid",
        QueryParameterName=name,
        QueryParameterValue=value,
        Reason=reason,
    )


def page(
    world: World,
    request: Request,
    resources: Iterable[T],
    show: Callable[[T], dict[str, Any]],
    name: str,
    lag: bool = True,
) -> Response:
    """Return one page of a list, and where the next one is."""
    lag_s = world.settings.list_lag_s if lag else 0.0
    looks = [resource.seen(lag_s, lambda t=resource: show(t)) for resource in resources]  # type: ignore[misc]
    chosen = [s for s in looks if s is not None and kept(s, request)]
    return cut(world, request, chosen, name)


def cut(world: World, request: Request, chosen: list[dict[str, Any]], name: str) -> Response:
    """Cut a page out of what was chosen."""
    most = asked(request)
    first = int(request.query.get("skiptoken", 0))
    last = first + min(most, world.settings.page)
    value = [selected(s, request) for s in chosen[first:last]]
    body: dict[str, Any] = {"odata.metadata": f"{world.url}/$metadata#{name}", "value": value}
    if last < len(chosen):
        query = {**request.query, "skiptoken": str(last)}
        body["odata.nextLink"] = f"{world.url}/{target(request)}?{urlencode(query)}"
    return Response(200, body)


def target(request: Request) -> str:
    text = request.operation.path.pattern.lstrip("/")
    for key, value in request.path.items():
        text = re.sub(rf"\(\?P<{key}>\[\^/\]\+\)", value.replace("\\", r"\\"), text)
    return text


def asked(request: Request) -> int:
    """ "maxresults: [...] A maximum of 1000 can be returned"."""
    text = request.query.get("maxresults", str(MOST))
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise ServiceError(
            "OutOfRangeQueryParameterValue",
            "A query parameter specified in the request URI is outside the permissible range.",
            QueryParameterName="maxresults",
            QueryParameterValue=text,
        )
    return int(text)


def value_of(shown: Mapping[str, Any], path: str) -> Any:
    value: Any = shown
    for name in path.split("/"):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def kept(shown: Mapping[str, Any], request: Request) -> bool:
    """Return whether $filter keeps it: comparisons and startswith, joined by `and` or by `or`.

    https://learn.microsoft.com/en-us/rest/api/batchservice/odata-filters-in-batch
    """
    text = request.query.get("$filter")
    if text is None:
        return True
    return any(
        all(
            holds(
                shown, term.strip().strip("()") if "startswith" not in term else term.strip(), text
            )
            for term in re.split(r"\s+and\s+", part)
        )
        for part in re.split(r"\s+or\s+", text)
    )


def holds(shown: Mapping[str, Any], term: str, text: str) -> bool:
    starts = STARTS.fullmatch(term)
    if starts:
        return str(value_of(shown, starts[1]) or "").startswith(starts[2].replace("''", "'"))
    match = TERM.fullmatch(term)
    if match is None:
        raise invalid("$filter", text, f"{term!r} cannot be read")
    value, wanted = value_of(shown, match[1]), literal(match[3])
    if value is None:
        return match[2] == "ne"
    try:
        return COMPARE[match[2]](value, wanted)
    except TypeError as exc:
        raise invalid("$filter", text, f"{term!r} compares things of two kinds") from exc


def literal(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return {"true": True, "false": False}.get(text, int(text) if text.isdecimal() else text)


def selected(shown: dict[str, Any], request: Request) -> dict[str, Any]:
    """Return what $select names."""
    text = request.query.get("$select")
    if not text:
        return shown
    names = {name.strip().partition("/")[0] for name in text.split(",")}
    return {k: v for k, v in shown.items() if k in names}
