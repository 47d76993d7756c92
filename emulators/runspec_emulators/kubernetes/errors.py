"""Errors of the API server, as objects of kind Status.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/,
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#response-status-kind
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from runspec_emulators.frame.errors import ServiceError


class Names(NamedTuple):
    """How errors name a kind of object."""

    group: str
    plural: str
    kind: str

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self, name: str = "", *, by_kind: bool = False) -> dict[str, Any]:
        shown = {"name": name, "group": self.group, "kind": self.kind if by_kind else self.plural}
        return {k: v for k, v in shown.items() if v}


class Cause(NamedTuple):
    """What is wrong with a field."""

    reason: str
    field: str
    message: str


def refuse(
    status: int, reason: str, message: str, details: dict[str, Any] | None = None
) -> ServiceError:
    """Return an error; *details* are those of the Status, which has none without them."""
    return ServiceError(status, reason, message, details=details)


def not_found(names: Names, name: str) -> ServiceError:
    message = f'{names.resource} "{name}" not found'
    return refuse(404, "NotFound", message, names.details(name))


def no_path() -> ServiceError:
    message = "the server could not find the requested resource"
    return refuse(404, "NotFound", message, {})


def no_method() -> ServiceError:
    said = "the server does not allow this method on the requested resource"
    return refuse(405, "MethodNotAllowed", said, {})


def already_exists(names: Names, name: str, *, leaving: bool = False) -> ServiceError:
    """Return the error of a name that is taken, by an object that is being deleted if it is *leaving*."""
    message = f'{names.resource} "{name}" already exists'
    if leaving:
        message = f"object is being deleted: {message}"
    return refuse(409, "AlreadyExists", message, names.details(name))


def conflict(names: Names, name: str, why: str, *, by_kind: bool = False) -> ServiceError:
    """Return the error of an object that is not as expected; preconditions of a deletion name its kind."""
    kind = f"{names.kind}.{names.group}" if names.group else names.kind
    shown = kind if by_kind else names.resource
    message = f'Operation cannot be fulfilled on {shown} "{name}": {why}'
    return refuse(409, "Conflict", message, names.details(name, by_kind=by_kind))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def forbidden(names: Names, name: str, why: str) -> ServiceError:
    named = f'{names.resource} "{name}" is forbidden' if name else f"{names.resource} is forbidden"
    return refuse(403, "Forbidden", f"{named}: {why}", names.details(name))


def bad_request(message: str) -> ServiceError:
    return refuse(400, "BadRequest", message)


def gone(message: str) -> ServiceError:
    return refuse(410, "Expired", message)


def invalid(names: Names, name: str, causes: Sequence[Cause]) -> ServiceError:
    """Return the error of an object whose fields are wrong."""
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    kind = f"{names.kind}.{names.group}" if names.group else names.kind
    details = names.details(name, by_kind=True)
    details["causes"] = [
        {"reason": c.reason, "message": c.message, "field": c.field} for c in causes
    ]
    return refuse(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def wrong_options(kind: str, cause: Cause, name: str = "") -> ServiceError:
    """Return the error of the options of a request, such as "DeleteOptions"."""
    group = "" if kind == "PodLogOptions" else "meta.k8s.io"
    return invalid(Names(group, "", kind), name, [cause])


def quoted(value: Any) -> str:
    """Return a value as messages about fields have it.

    >>> quoted("a"), quoted(3), quoted(None)
    ('"a"', '3', 'null')
    """
    return json.dumps(value)


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", field, f"Required value: {why}" if why else "Required value")


def wrong(field: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueInvalid", field, f"Invalid value: {quoted(value)}: {why}")


def unsupported(field: str, value: Any, known: Sequence[str]) -> Cause:
    values = ", ".join(quoted(v) for v in known)
    message = f"Unsupported value: {quoted(value)}: supported values: {values}"
    return Cause("FieldValueNotSupported", field, message)


def not_allowed(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {why}")


def status_of(error: ServiceError) -> dict[str, Any]:
    """Return the Status that an error is answered with."""
    details = error.details.get("details")
    meta = error.details.get("meta") or {}
    shown: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": meta}
    shown |= {"status": "Failure", "message": error.message}
    if error.code:
        shown["reason"] = error.code
    if details is not None:
        shown["details"] = dict(details)
    return {**shown, "code": error.status}


FAULTS = {
    "throttle": refuse(
        429,
        "TooManyRequests",
        "Too many requests, please try again later.",
        {"retryAfterSeconds": 1},
    ),
    "busy": refuse(
        503, "ServiceUnavailable", "the server is currently unable to handle the request"
    ),
    "timeout": refuse(
        504,
        "Timeout",
        "Timeout: request did not complete within requested timeout - context deadline exceeded",
    ),
    "error-before": refuse(
        500, "InternalError", "Internal error occurred: etcdserver: request timed out"
    ),
    "error-after": refuse(
        500, "InternalError", "Internal error occurred: etcdserver: request timed out"
    ),
    "expired": refuse(401, "Unauthorized", "Unauthorized"),
}
"""The error of each kind of injected fault."""
