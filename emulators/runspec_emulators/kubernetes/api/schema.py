"""Decode objects as the API server does: strictly, by the schemas of its OpenAPI.

https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation. The messages are those of users' reports,
such as https://github.com/kubernetes/kubernetes/issues/104433 and https://github.com/kubernetes/kubernetes/issues/118826.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import quantity
from runspec_emulators.kubernetes.errors import Cause

FILE = Path(__file__).with_name("schemas.json")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
BITS = {"int32": 31, "int64": 63}
PRIORITY_CLASS = {
    "fields": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"ref": "ObjectMeta"},
        "value": {"type": "integer", "format": "int32"},
        "globalDefault": {"type": "boolean"},
        "description": {"type": "string"},
        "preemptionPolicy": {"type": "string"},
    },
    "required": ["value"],
}
"""https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/priority-class-v1/"""


class Pairs(dict[str, Any]):
    """An object of JSON that knows which of its fields came twice."""

    twice: tuple[str, ...] = ()


def _pairs(given: list[tuple[str, Any]]) -> Pairs:
    pairs = Pairs(given)
    names = [name for name, _ in given]
    if len(pairs) < len(names):
        pairs.twice = tuple(dict.fromkeys(n for n in names if names.count(n) > 1))
    return pairs


def read_json(body: bytes) -> Any:
    """Return the JSON of a body; raise ServiceError if it is none."""
    try:
        return json.loads(body, object_pairs_hook=_pairs)
    except ValueError as exc:
        raise errors.bad_request(f"invalid character in the body of the request: {exc}") from exc


@cache
def kinds() -> dict[str, Any]:
    """Return the schemas by kind: fields, and which of them are required."""
    read: dict[str, Any] = json.loads(FILE.read_text())["kinds"]
    return {**read, "PriorityClass": PRIORITY_CLASS}


class Decoder:
    """Decodes one object of a kind; what is wrong with it is gathered."""

    def __init__(self, kind: str, version: str) -> None:
        self.kind, self.version = kind, version
        self.unknown: list[str] = []
        """Fields that are unknown or came twice, as the server words it."""
        self.causes: list[Cause] = []

    def decode(self, value: Any) -> dict[str, Any]:
        """Return the object with what its schema has; raise ServiceError for a value of another type."""
        if self.kind not in kinds():
            return dict(value)
        decoded = self._object(self.kind, value, "")
        assert isinstance(decoded, dict), "BUG: a kind is an object"
        return decoded

    def _wrong_type(self, value: Any, path: str, wanted: str) -> Exception:
        name = NAMES.get(type(value), "null")
        place = f"Go struct field {self.kind}.{path}" if path else "Go value"
        return self._refuse(f"json: cannot unmarshal {name} into {place} of type {wanted}")

    def _refuse(self, why: str) -> Exception:
        said = f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}'
        return errors.bad_request(said)

    def _object(self, kind: str, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong_type(value, path, f"v1.{kind}")
        schema = kinds()[kind]
        decoded = {}
        dot = f"{path}." if path else ""
        self.unknown += [f'duplicate field "{dot}{n}"' for n in getattr(value, "twice", ())]
        for name, inner in value.items():
            form = schema["fields"].get(name)
            if form is None:
                self.unknown.append(f'unknown field "{dot}{name}"')
            # A null stands for a field that is not given.
            elif inner is not None:
                decoded[name] = self._field(form, inner, f"{dot}{name}")
        missing = [n for n in schema.get("required", ()) if n not in decoded]
        self.causes += [errors.required(f"{dot}{name}") for name in missing]
        return decoded

    def _field(self, form: dict[str, Any], value: Any, path: str) -> Any:
        if "ref" in form:
            return self._object(form["ref"], value, path)
        if "items" in form:
            if not isinstance(value, list):
                raise self._wrong_type(value, path, "[]interface {}")
            return [self._field(form["items"], v, f"{path}[{n}]") for n, v in enumerate(value)]
        if "map" in form:
            return self._map(form["map"], value, path)
        return self._scalar(form, value, path)

    def _map(self, form: dict[str, Any], value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong_type(value, path, "map[string]string")
        self.unknown += [f'duplicate field "{path}.{n}"' for n in getattr(value, "twice", ())]
        # A null is the empty value of its type, and so "" in a map of strings.
        return {
            k: self._field(
                form, "" if v is None and form.get("type") == "string" else v, f"{path}.{k}"
            )
            for k, v in value.items()
        }

    def _scalar(self, form: dict[str, Any], value: Any, path: str) -> Any:
        kind = form["type"]
        if kind in ("any", "object"):
            return value
        if kind == "quantity":
            return self._quantity(value)
        if kind == "int-or-string":
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise self._wrong_type(value, path, "intstr.IntOrString")
            return value
        if kind == "integer":
            return self._integer(form, value, path)
        if kind == "boolean":
            if not isinstance(value, bool):
                raise self._wrong_type(value, path, "bool")
            return value
        if not isinstance(value, str):
            raise self._wrong_type(value, path, "string")
        return self._text(form, value, path)

    def _text(self, form: dict[str, Any], value: str, path: str) -> str:
        if form["type"] == "time" and not TIME.fullmatch(value):
            layout = "2006-01-02T15:04:05Z07:00"
            raise self._refuse(f'parsing time "{value}" as "{layout}": cannot parse "{value}"')
        if form.get("format") == "byte":
            try:
                base64.b64decode(value, validate=True)
            except binascii.Error as exc:
                raise self._refuse("illegal base64 data at input byte 0") from exc
        if "enum" in form and value not in ("", *form["enum"]):
            self.causes.append(errors.unsupported(path, value, form["enum"]))
        return value

    def _integer(self, form: dict[str, Any], value: Any, path: str) -> int:
        kind = form.get("format", "int64")
        whole = isinstance(value, float) and value.is_integer()
        if isinstance(value, bool) or not (isinstance(value, int) or whole):
            raise self._wrong_type(value, path, kind)
        if not -(2 ** BITS.get(kind, 63)) <= value < 2 ** BITS.get(kind, 63):
            said = f"json: cannot unmarshal number {value} into Go struct field"
            raise self._refuse(f"{said} {self.kind}.{path} of type {kind}")
        return int(value)

    def _quantity(self, value: Any) -> str:
        try:
            quantity.read(value)
        except ValueError as exc:
            raise self._refuse(str(exc)) from exc
        return str(value)


def merge_key(kind: str, path: tuple[str, ...]) -> str | None:
    """Return the field by which a strategic merge patch merges the list at *path*; None if it replaces it."""
    form = form_at(kind, path)
    key: str | None = form.get("key") if form else None
    return key


def form_at(kind: str, path: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the form of the field at *path*, where a list stands for its items."""
    form: dict[str, Any] = {"ref": kind}
    for name in path:
        while "items" in form:
            form = form["items"]
        if "map" in form:
            form = form["map"]
            continue
        inner = kinds().get(form.get("ref", ""), {"fields": {}})["fields"].get(name)
        if inner is None:
            return None
        form = inner
    return form
