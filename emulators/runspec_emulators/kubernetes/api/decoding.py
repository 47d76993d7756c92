"""Objects in the bodies of requests: their kind, their fields, and their name.

https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation
"""

from __future__ import annotations

from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import schema
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.errors import Cause
from runspec_emulators.kubernetes.resources import RESOURCES, Resource
from runspec_emulators.kubernetes.world import Object


def decode(request: Request, given: Any) -> tuple[Object, list[Cause]]:
    """Return the object of a body, and what its schema has against it. Unknown fields are errors or warnings."""
    resource = request.resource
    kind, version = resource.names.kind, resource.version
    if not isinstance(given, dict):
        raise errors.bad_request(
            f"couldn't get version/kind; json parse error: {type(given).__name__}"
        )
    _check_kind(resource, given)
    decoder = schema.Decoder(kind, version)
    value = decoder.decode(given)
    mode = request.option("fieldValidation", "Warn")
    if mode not in ("Strict", "Warn", "Ignore"):
        cause = errors.unsupported("fieldValidation", mode, ["Ignore", "Strict", "Warn"])
        raise errors.refuse(422, "Invalid", f"{cause.field}: {cause.message}")
    if decoder.unknown and mode == "Strict":
        why = f"strict decoding error: {', '.join(decoder.unknown)}"
        raise errors.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
        )
    if mode == "Warn":
        request.warnings += decoder.unknown
    meta = value.get("metadata", {})
    return {
        "apiVersion": resource.api_version,
        "kind": kind,
        **value,
        "metadata": meta,
    }, decoder.causes


def _check_kind(resource: Resource, given: Object) -> None:
    """Raise ServiceError if a body says that it is something else."""
    kind, whole = given.get("kind", resource.names.kind), given.get("apiVersion")
    if whole in (None, resource.api_version) and kind == resource.names.kind:
        return
    group, _, version = str(whole or resource.api_version).rpartition("/")
    known = any(r.api_version == whole for r in RESOURCES) or whole is None
    why = (
        f"converting ({version}.{kind}) to ({group or 'core'}.{resource.names.kind}): unknown conversion"
        if known
        else f'no kind "{kind}" is registered for version "{whole}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )
    said = f'{kind} in version "{version}" cannot be handled as a {resource.names.kind}'
    raise errors.bad_request(f"{said}: {why}")


def check_name(request: Request, value: Object) -> None:
    """Raise ServiceError if an object has not the name of the path."""
    name = value["metadata"].get("name", "")
    if name != request.name:
        said = (
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
        raise errors.bad_request(said)
