"""Which requests are allowed: nothing but what the models of azure-mgmt-batchai have, and all they require.

The SDK itself checks nothing and drops unknown keys in silence; the service did neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints
from urllib.parse import parse_qsl, unquote, urlsplit

from azure.mgmt.batchai import models

from runspec_emulators.batch_ai.api.routes import VERSION, routes
from runspec_emulators.batch_ai.errors import refused
from runspec_emulators.frame.errors import ServiceError

BODIES = {
    "Workspaces_Create": "WorkspaceCreateParameters",
    "Workspaces_Update": "WorkspaceUpdateParameters",
    "Clusters_Create": "ClusterCreateParameters",
    "Clusters_Update": "ClusterUpdateParameters",
    "FileServers_Create": "FileServerCreateParameters",
    "Jobs_Create": "JobCreateParameters",
}
# The official description gives Experiments_Create no body; the official example gives it this one. Both are accepted.
NOTHING = (None,)
EMPTY: dict[str, tuple[Any, ...]] = {"Experiments_Create": (None, {"properties": {}})}
# The SDK flattens `properties` and so forgets what is required of it: definitions
# ClusterBaseProperties, FileServerBaseProperties and JobBaseProperties of the official description.
REQUIRED = {
    "ClusterCreateParameters": ("properties.vmSize", "properties.userAccountSettings"),
    "FileServerCreateParameters": (
        "properties.vmSize",
        "properties.sshConfiguration",
        "properties.dataDisks",
    ),
    "JobCreateParameters": (
        "properties.cluster",
        "properties.nodeCount",
        "properties.stdOutErrPathPrefix",
    ),
}
# "One of ... must be specified", or "provided", say the descriptions of these members.
ONE_OF = {
    "AzureStorageCredentialsInfo": ("accountKey", "accountKeySecretReference"),
    "PrivateRegistryCredentials": ("password", "passwordSecretReference"),
    "EnvironmentVariableWithSecretValue": ("value", "valueSecretReference"),
    "AppInsightsReference": ("instrumentationKey", "instrumentationKeySecretReference"),
    # "At least one of manual or autoScale settings must be specified. Only one [...] can be"
    "ScaleSettings": ("manual", "autoScale"),
}
# Parameters of the official description: patterns and lengths of names, ranges of numbers.
NAME = re.compile(r"[-\w_]{1,64}", re.ASCII)
GROUP_NAME = re.compile(r"[-\w._]{1,90}", re.ASCII)  # 90: Resource group naming rules of ARM
PAGE = "$skiptoken"  # the parameter of nextLink
QUERIES: dict[str, dict[str, tuple[int, int] | None]] = {
    "Jobs_ListOutputFiles": {
        "outputdirectoryid": None,
        "directory": None,
        "linkexpiryinminutes": (5, 600),
        "maxresults": (1, 1000),
        PAGE: None,
    },
}
LISTS = {
    "Workspaces_List",
    "Workspaces_ListByResourceGroup",
    "Clusters_ListByWorkspace",
    "Experiments_ListByWorkspace",
    "FileServers_ListByWorkspace",
    "Jobs_ListByExperiment",
}
DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
    r"|(?:(?P<d>\d+)\.)?(?P<h>\d+):(?P<m>\d+):(?P<s>\d+(?:\.\d+)?)"
)
PLAIN: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "bool": (bool,),
}


class Request(NamedTuple):
    """One call as the wire had it."""

    service: str
    operation: str
    path: dict[str, str]
    query: dict[str, str]
    body: Any
    target: str
    """The path itself, as it was written."""


def read(method: str, target: str, body: bytes) -> Request:
    """Read a request; raise ServiceError for one that matches no operation."""
    split = urlsplit(target)
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    # All SDKs request the next page of a list by GET, even if the operation for its first page is a POST.
    methods = {"GET", "POST"} if PAGE in query and method == "GET" else {method}
    for known in routes():
        match = known.path.fullmatch(split.path) if known.method in methods else None
        if match:
            path = {name: unquote(value) for name, value in match.groupdict().items()}
            return Request(known.service, known.operation, path, query, parsed(body), split.path)
    raise ServiceError(
        404, "InvalidResourceType", f"no resource type answers {method} {split.path}"
    )


def parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError as exc:
        raise ServiceError(
            400, "InvalidRequestContent", f"The request content was invalid: {exc}"
        ) from exc


def check(request: Request) -> None:
    """Raise ServiceError unless the description allows the request."""
    problems = [*wrong_path(request), *wrong_query(request), *wrong_body(request)]
    if problems:
        raise refused("; ".join(problems))


def wrong_path(request: Request) -> Iterator[str]:
    for name, value in request.path.items():
        if name == "resourceGroupName" and not GROUP_NAME.fullmatch(value):
            yield f"resourceGroupName: {value!r} does not match {GROUP_NAME.pattern}"
        elif name.endswith("Name") and name != "resourceGroupName" and not NAME.fullmatch(value):
            yield f"{name}: {value!r} does not match {NAME.pattern}"


def wrong_query(request: Request) -> Iterator[str]:
    given = dict(request.query)
    version = given.pop("api-version", None)
    if version is None:
        raise ServiceError(400, "MissingApiVersionParameter", "The api-version is required.")
    if request.service != "batchai":
        return
    if version != VERSION:
        message = f"The api-version '{version}' is invalid; there is '{VERSION}'."
        raise ServiceError(400, "InvalidApiVersionParameter", message)
    known = QUERIES.get(request.operation, {})
    if request.operation in LISTS:
        known = {**known, "maxresults": (1, 1000), PAGE: None}
    if "outputdirectoryid" in known and "outputdirectoryid" not in given:
        yield "outputdirectoryid: required"
    for name, value in given.items():
        if name not in known:
            yield f"{name}: there is no such parameter"
        elif (limits := known[name]) is not None:
            low, high = limits
            if not value.isdecimal() or not low <= int(value) <= high:
                yield f"{name}: {value!r} is not between {low} and {high}"


def wrong_body(request: Request) -> Iterator[str]:
    model = BODIES.get(request.operation)
    if model is not None:
        yield from wrong(request.body, model, "")
    elif request.service == "batchai" and request.body not in EMPTY.get(request.operation, NOTHING):
        yield f"{request.operation} takes no body"


# The models

# What msrest goes by when it serializes a model.
# https://github.com/Azure/msrest-for-python/blob/master/msrest/serialization.py
NAMES, LIMITS = "_attribute_map", "_validation"


class Member(NamedTuple):
    """One member of a model, as the wire has it."""

    key: str
    kind: str
    required: bool
    read_only: bool
    values: tuple[str, ...]
    """The values of an enum; empty for any other kind."""


@cache
def members(model: str) -> dict[str, Member]:
    """Return the members of a model by their keys on the wire, dots for what the SDK flattens."""
    kind = getattr(models, model)
    hints = get_type_hints(kind.__init__, vars(models))
    members = {}
    for name, entry in getattr(kind, NAMES).items():
        rule = getattr(kind, LIMITS).get(name, {})
        key = entry["key"].replace("\\.", ".")
        required = bool(rule.get("required")) or key in REQUIRED.get(model, ())
        read_only = bool(rule.get("readonly"))
        allowed = values(hints.get(name)) or documented(kind, name)
        members[key] = Member(key, entry["type"], required, read_only, allowed)
    return members


def documented(kind: type, name: str) -> tuple[str, ...]:
    """Return what the enum allows that the docstring of a model names: what is read-only has no annotation."""
    named = re.search(rf":vartype {name}: str or\s+~[\w.]+\.(\w+)", kind.__doc__ or "")
    return tuple(str(member.value) for member in getattr(models, named[1])) if named else ()


def values(hint: Any) -> tuple[str, ...]:
    """Return what the enum allows that a hint names, if it names one."""
    for part in get_args(hint):
        if inspect_enum(part):
            return tuple(str(member.value) for member in part)
    return ()


def inspect_enum(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Enum)


def wrong(value: Any, kind: str, path: str) -> Iterator[str]:
    """Yield a message for each part of *value* that *kind* does not allow."""
    if kind.startswith("["):
        yield from wrong_list(value, kind[1:-1], path)
    elif kind.startswith("{"):
        yield from wrong_map(value, kind[1:-1], path)
    elif kind in PLAIN:
        if not isinstance(value, PLAIN[kind]) or (kind != "bool" and isinstance(value, bool)):
            yield f"{path}: {value!r} is no {kind}"
    elif kind == "duration":
        if not isinstance(value, str) or not DURATION.fullmatch(value):
            yield f"{path}: {value!r} is no duration, such as P1D"
    else:
        yield from wrong_object(value, kind, path)


def wrong_list(value: Any, kind: str, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: {value!r} is no list"
        return
    for i, item in enumerate(value):
        yield from wrong(item, kind, f"{path}[{i}]")


def wrong_map(value: Any, kind: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no object"
        return
    for name, item in value.items():
        yield from wrong(item, kind, f"{path}.{name}")


def wrong_object(value: Any, model: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path or 'the body'}: {value!r} is no object"
        return
    known = members(model)
    flat = dict(flattened(value, known))
    for key, item in flat.items():
        where = f"{path}.{key}".strip(".")
        member = known.get(key)
        if member is None:
            yield f"{where}: there is no such member"
        elif member.read_only:
            yield f"{where}: is read-only"
        elif member.values and item not in member.values:
            yield f"{where}: {item!r} is none of {list(member.values)}"
        else:
            yield from wrong(item, member.kind, where)
    for key, member in known.items():
        if member.required and key not in flat:
            yield f"{path}.{key}: required".strip(".")
    yield from wrong_choice(flat, model, path)


def wrong_choice(flat: Mapping[str, Any], model: str, path: str) -> Iterator[str]:
    choice = ONE_OF.get(model)
    if choice and len([name for name in choice if name in flat]) != 1:
        yield f"{path}: exactly one of {' and '.join(choice)} is required"


def flattened(value: Mapping[str, Any], known: Mapping[str, Member]) -> Iterator[tuple[str, Any]]:
    """Return members with the keys of `members`: what the SDK flattens, by dotted keys."""
    nested = {key.partition(".")[0] for key in known if "." in key}
    for name, member in value.items():
        if name in nested and isinstance(member, dict):
            yield from ((f"{name}.{inner}", v) for inner, v in member.items())
        else:
            yield name, member


def seconds(duration: str) -> float:
    """Return the length of a duration that `check` let pass.

    >>> seconds("P1DT2H"), seconds("7.00:00:00"), seconds("PT1.5S")
    (93600.0, 604800.0, 1.5)
    """
    match = DURATION.fullmatch(duration)
    assert match, "BUG: the duration was checked"
    days, hours, minutes, secs = (
        float(match[long] or match[short] or 0)
        for long, short in (("days", "d"), ("hours", "h"), ("minutes", "m"), ("seconds", "s"))
    )
    return ((days * 24 + hours) * 60 + minutes) * 60 + secs
