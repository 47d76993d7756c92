"""Lists in pages, as they were when the first page was asked for.

https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
"""

from __future__ import annotations

import base64
import json
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import selectors
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.resources import Resource
from runspec_emulators.kubernetes.world import Object, World

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


def test_of(request: Request) -> selectors.Test:
    """Return the test of the selectors of a request."""
    plural = request.resource.names.plural
    labels = selectors.label_test(request.option("labelSelector"))
    fields = selectors.field_test(plural, request.option("fieldSelector"))
    return lambda value: labels(value) and fields(value)


def chosen(world: World, request: Request) -> list[Object]:
    """Return the objects that a request's path and selectors choose."""
    fits = test_of(request)
    return [v for v in world.all(request.resource, request.namespace) if fits(v)]


def page(world: World, request: Request) -> Object:
    """Return a list of objects, or a page of it."""
    _check_match(request)
    asked = check_version(world, request)
    limit, fits = request.number("limit") or 0, test_of(request)
    most = world.settings.page
    # A server may give fewer items than the limit; clients have to go on while there is a token.
    limit = min(limit, most) if limit and most else limit or most
    version, start = world.version, ("", "")
    if request.option("resourceVersionMatch") == "Exact":
        version = asked
        if version < world.forgotten:
            raise errors.gone("The resourceVersion for the provided list is too old.")
    if request.option("continue"):
        version, start = _read_token(request.option("continue"))
        # A token of -1 came with "too old": its rest is read as it is now, which may be
        # inconsistent.
        version = version if version > 0 else world.version
        if version < world.forgotten:
            error = errors.gone(TOO_OLD)
            error.details["meta"] = {"continue": _token(-1, start)}
            raise error
    kept = as_of(world, request.resource, version)
    # Pages go by namespace and name, the order of keys in etcd: so a token is only the last key.
    keys = sorted(k for k in kept if not request.namespace or k[0] == request.namespace)
    rest = [k for k in keys if k > start and fits(kept[k])]
    shown = rest[:limit] if limit else rest
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if len(shown) < len(rest):
        meta["continue"] = _token(version, shown[-1])
        # With selectors, "the number of remaining items is unknown": ListMeta of meta/v1.
        if not request.option("labelSelector") and not request.option("fieldSelector"):
            meta["remainingItemCount"] = len(rest) - len(shown)
    return {
        "kind": request.resource.list_kind,
        "apiVersion": request.resource.api_version,
        "metadata": meta,
        "items": [_item(kept[k]) for k in shown],
    }


def _item(value: Object) -> Object:
    """Return an object as lists have it: without a kind and a version, which the list itself has."""
    return {k: v for k, v in value.items() if k not in ("apiVersion", "kind")}


def _check_match(request: Request) -> None:
    """Raise ServiceError if a rule for versions is given where it says nothing."""
    rule, version = request.option("resourceVersionMatch"), request.option("resourceVersion")
    if request.option("continue") and version not in ("", "0"):
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    if rule and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        cause = errors.not_allowed("resourceVersionMatch", why)
        raise errors.wrong_options("ListOptions", cause)


def check_version(world: World, request: Request) -> int:
    """Return the version that a request asks for, 0 if none; raise ServiceError for one that cannot be."""
    text = request.option("resourceVersion")
    if text and not text.isdigit():
        said = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.bad_request(said)
    version = int(text or 0)
    if version > world.version:
        message = f"Too large resource version: {version}, current: {world.version}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        details = {"causes": [cause], "retryAfterSeconds": 1}
        raise errors.refuse(504, "Timeout", f"Timeout: {message}", details)
    return version


def as_of(world: World, resource: Resource, version: int) -> dict[tuple[str, str], Object]:
    """Return the objects of a resource as they were at a version that is not forgotten."""
    name = resource.names.resource
    kept = dict(world.objects.get(name, {}))
    for change in reversed(world.changes):
        if change.version <= version:
            break
        if change.resource == name:
            meta = change.value["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            if change.before is None:
                kept.pop(key, None)
            else:
                kept[key] = change.before
    return kept


def _token(version: int, start: tuple[str, str]) -> str:
    value = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(start)}
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, tuple[str, str]]:
    try:
        value = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, _, name = value["start"].partition("/")
        return int(value["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError) as exc:
        raise errors.bad_request(f"continue key is not valid: {exc}") from exc
