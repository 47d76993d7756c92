"""Requests as the wire has them, read and checked by the SDK's models."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from runspec_emulators.azure_batch.api.operations import GUARDED, Operation, find
from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_services.sdk_models import problems

# What any request may have: https://learn.microsoft.com/en-us/rest/api/batchservice/batch-api-common
COMMON_HEADERS = {"ocp-date"}


class Request(NamedTuple):
    """One call as the wire had it, read by the models."""

    operation: Operation
    path: dict[str, str]
    query: dict[str, str]
    headers: Mapping[str, str]
    """Names in small letters."""
    body: Any


def read(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
    """Read a request; raise ServiceError for one that matches no operation, or that is no JSON."""
    operation, path = find(method, target)
    query = dict(parse_qsl(urlsplit(target).query, keep_blank_values=True))
    if not body:
        return Request(operation, path, query, headers, None)
    try:
        value = json.loads(body)
    except ValueError as exc:
        message = "The specified Request Body is not syntactically valid."
        raise ServiceError("InvalidRequestBody", message, Reason=str(exc)) from exc
    return Request(operation, path, query, headers, value)


def check(request: Request, versions: Collection[str]) -> None:
    """Raise ServiceError unless the models allow the request: its query, its headers, its body."""
    check_query(request, versions)
    check_headers(request)
    model = request.operation.body
    if model is None:
        if request.body is not None:
            raise ServiceError("InvalidRequestBody", "The operation takes no body.")
        return
    if request.body is None:
        if request.operation.body_required:
            raise ServiceError("InvalidRequestBody", "The operation needs a body.")
        return
    problem = next(problems(request.body, model), None)
    if problem is not None:
        raise ServiceError(
            problem.code,
            "The request body is not what the service takes.",
            PropertyName=problem.path,
            PropertyValue=json.dumps(problem.value),
            Reason=problem.reason,
        )


def check_query(request: Request, versions: Collection[str]) -> None:
    """ "timeOut" is how the SDK writes it: names in the query are read without regard to case."""
    given = {k.lower(): v for k, v in request.query.items()}
    known = {k.lower(): kind for k, kind in request.operation.query.items()}
    if "api-version" not in given:
        raise ServiceError(
            "MissingRequiredQueryParameter",
            "A required query parameter was not specified for this request.",
            QueryParameterName="api-version",
        )
    if given["api-version"] not in versions:
        raise ServiceError(
            "UnsupportedRequestVersion", "The specified request version is not supported."
        )
    for name, value in given.items():
        if name not in known and not (name == "skiptoken" and "maxresults" in known):
            raise ServiceError(
                "UnsupportedQueryParameter",
                "One of the query parameters specified in the request URI is not supported.",
                QueryParameterName=name,
            )
        kind = known.get(name, str)
        if (kind is int and not value.isdecimal()) or (
            kind is bool and value.lower() not in ("true", "false")
        ):
            raise ServiceError(
                "InvalidQueryParameterValue",
                "Value for one of the query parameters specified in the request URI is invalid",
                QueryParameterName=name,
                QueryParameterValue=value,
            )


def check_headers(request: Request) -> None:
    known = COMMON_HEADERS | request.operation.headers
    for name in request.headers:
        if GUARDED.fullmatch(name) and name not in known:
            raise ServiceError(
                "UnsupportedHeader",
                "One of the HTTP headers specified in the request is not supported.",
                HeaderName=name,
            )
    kind = request.headers.get("content-type", "").replace(" ", "").lower()
    if request.body is not None and kind != "application/json;odata=minimalmetadata":
        raise ServiceError(
            "InvalidHeaderValue",
            "The value provided for one of the HTTP headers was not in the correct format.",
            HeaderName="Content-Type",
            HeaderValue=kind,
        )
