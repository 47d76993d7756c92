"""The service models of botocore: which operations there are, how requests are read and refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import botocore.session
from botocore.model import OperationModel, Shape
from botocore.validate import ParamValidator

from runspec_emulators.aws.errors import ServiceError
from runspec_emulators.frame.errors import raise_problems, sample

INVALID = {"batch": "ClientException", "logs": "InvalidParameterException"}


class Request(NamedTuple):
    """One call as the wire had it, read by the service model."""

    service: str
    operation: str
    params: dict[str, Any]
    bytes: int


class Route(NamedTuple):
    """The method and path of one operation of a REST service."""

    method: str
    path: re.Pattern[str]
    operation: str


@cache
def service(name: str) -> Any:
    """Return botocore's model of a service."""
    return botocore.session.get_session().get_service_model(name)


@cache
def operation_model(name: str, operation: str) -> OperationModel:
    model: OperationModel = service(name).operation_model(operation)
    return model


@cache
def routes() -> tuple[Route, ...]:
    """Return where the operations of batch are found, as the model's `http` traits say."""
    routes = []
    for name in service("batch").operation_names:
        http = operation_model("batch", name).http
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(http["requestUri"]))
        routes.append(Route(http["method"], re.compile(pattern), name))
    return tuple(routes)


def read(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
    """Read a request of either service; *headers* are by their names in lower case.

    Raise ServiceError for a request that matches no operation.
    """
    split = urlsplit(target)
    prefix, _, name = headers.get("x-amz-target", "").partition(".")
    if name:
        if prefix != service("logs").metadata["targetPrefix"]:
            raise ServiceError("UnknownOperationException", f"no service has the target {prefix}")
        if name not in service("logs").operation_names:
            raise ServiceError("UnknownOperationException", f"logs has no operation {name}")
        return Request("logs", name, parsed("logs", body), len(body))
    for route in routes():
        match = route.path.fullmatch(split.path) if route.method == method else None
        if match:
            params = parsed("batch", body)
            params.update({k: unquote(v) for k, v in match.groupdict().items()})
            params.update(queried(route.operation, split.query))
            return Request("batch", route.operation, params, len(body))
    raise ServiceError("UnknownOperationException", f"batch has no {method} {split.path}")


def parsed(name: str, body: bytes) -> dict[str, Any]:
    """Return the members that a JSON body holds."""
    try:
        params = json.loads(body or b"{}")
    except ValueError as exc:
        raise ServiceError("SerializationException", f"the body is not JSON: {exc}") from exc
    if not isinstance(params, dict):
        raise ServiceError(INVALID[name], "the body is not a JSON object")
    return params


def queried(operation: str, query: str) -> dict[str, Any]:
    """Return the members that the query string holds."""
    shape = operation_model("batch", operation).input_shape
    given = parse_qs(query, keep_blank_values=True)
    members: dict[str, Any] = {}
    for name, member in (shape.members if shape else {}).items():
        key = member.serialization.get("name", name)
        if member.serialization.get("location") == "querystring" and key in given:
            members[name] = given[key] if member.type_name == "list" else given[key][0]
    return members


def check(request: Request) -> None:
    """Raise ServiceError unless the model allows the request.

    botocore's own validator sees unknown members, missing ones and wrong types; `strict` sees
    enums, and the lengths, ranges and patterns that are traits of shapes.
    """
    shape = operation_model(request.service, request.operation).input_shape
    if shape is None:
        return
    report = ParamValidator().validate(request.params, shape).generate_report()
    problems = [report] if report else list(strict(request.params, shape, ""))
    if problems:
        raise ServiceError(INVALID[request.service], "; ".join(problems))


# Batch leaves these out until there is something to say, though its model has them as required.
# https://docs.aws.amazon.com/batch/latest/APIReference/API_JobDetail.html
LATER = {"startedAt"}


def check_answer(request: Request, answer: Mapping[str, Any]) -> None:
    """Raise InvalidResponse unless the model allows *answer*: members, types, what is required, and traits."""
    shape = operation_model(request.service, request.operation).output_shape
    if shape is None:
        problems = [f"nothing is said, and not {list(answer)}"] if answer else []
    else:
        shown = _sample(answer)
        report = ParamValidator().validate(shown, shape).generate_report()
        lines = [line for line in report.splitlines() if not _comes_later(line)]
        problems = lines or list(strict(shown, shape, ""))
    raise_problems(request.operation, problems)


def _comes_later(line: str) -> bool:
    return line.startswith("Missing required") and any(f'"{name}"' in line for name in LATER)


def _sample(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sample(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_sample(member) for member in sample(value)]
    return value


def strict(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Yield where *value* breaks an enum or another trait of its shape."""
    yield from traits(value, shape, path)
    if shape.type_name == "structure":
        for name, member in value.items():
            yield from strict(member, shape.members[name], f"{path}.{name}".strip("."))
    elif shape.type_name == "list":
        for i, member in enumerate(value):
            yield from strict(member, shape.member, f"{path}[{i}]")
    elif shape.type_name == "map":
        for name, member in value.items():
            yield from strict(name, shape.key, f"{path}.{name}")
            yield from strict(member, shape.value, f"{path}.{name}")


# SubmitJob says of evaluateOnExit.action: "The values aren't case sensitive."
CASELESS = {"RetryAction"}


def traits(value: Any, shape: Shape, path: str) -> Iterator[str]:
    meta = shape.metadata
    said = value.upper() if shape.name in CASELESS else value
    if "enum" in meta and said not in meta["enum"]:
        yield f"{path}: {value!r} is none of {list(meta['enum'])}"
    size = len(value) if isinstance(value, str | list | dict) else value
    if "max" in meta and size > meta["max"]:
        yield f"{path}: {size} is more than {meta['max']}"
    if "min" in meta and size < meta["min"]:
        yield f"{path}: {size} is less than {meta['min']}"
    if (
        "pattern" in meta
        and isinstance(value, str)
        and not re.fullmatch(_read_pattern(meta["pattern"]), value)
    ):
        yield f"{path}: {value!r} does not match {meta['pattern']}"


def _read_pattern(pattern: str) -> str:
    r"""Return a pattern of a model, whose classes of Unicode Python lacks, for `re`; \w has the underscore as well.

    >>> _read_pattern(r"^([\p{L}\p{Z}\p{N}_.:/=+\-@]+)$")
    '^([\\w\\s\\w_.:/=+\\-@]+)$'
    """
    return re.sub(r"\\p\{([LNZ])\}", lambda match: r"\s" if match[1] == "Z" else r"\w", pattern)
