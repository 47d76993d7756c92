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
    """Return an error; *details* are those of the Status."""
    return ServiceError(status, reason, message, details=details or {})


def not_found(names: Names, name: str) -> ServiceError:
    message = f'{names.resource} "{name}" not found'
    return refuse(404, "NotFound", message, names.details(name))


def no_path() -> ServiceError:
    message = "the server could not find the requested resource"
    return refuse(404, "NotFound", message)


def already_exists(names: Names, name: str) -> ServiceError:
    message = f'{names.resource} "{name}" already exists'
    return refuse(409, "AlreadyExists", message, names.details(name))


def conflict(names: Names, name: str, why: str) -> ServiceError:
    message = f'Operation cannot be fulfilled on {names.resource} "{name}": {why}'
    return refuse(409, "Conflict", message, names.details(name))


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
    details = dict(error.details.get("details") or {})
    meta = error.details.get("meta") or {}
    shown: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": meta}
    shown |= {"status": "Failure", "message": error.message, "reason": error.code}
    if details:
        shown["details"] = details
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
