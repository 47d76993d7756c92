"""Botocore's service models as schemas, and values of theirs as the bytes that each protocol sends."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import format_datetime
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import OperationModel, Shape

from runspec_emulators.aws.models import operation_model, service
from tests.drawn.schema import Schema
from tests.support.http_server import Reply

KINDS: Mapping[str, Any] = {
    "structure": "object",
    "list": "list",
    "map": "map",
    "string": "string",
    "character": "string",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "timestamp": "time",
    "blob": "bytes",
}
TYPES = {
    "json": "application/x-amz-json-1.1",
    "rest-json": "application/json",
    "rest-xml": "application/xml",
    "query": "text/xml",
    "ec2": "text/xml;charset=UTF-8",
}
ID = {"x-amzn-RequestId": "r-1", "x-amz-request-id": "r-1", "Date": "Mon, 23 Nov 2026 10:00:00 GMT"}


@cache
def protocol(name: str) -> str:
    return str(service(name).resolved_protocol)


def content_type(name: str) -> str:
    return TYPES[protocol(name)]


@cache
def output(name: str, operation: str) -> Schema:
    """Return the schema of an operation's answer; of one that answers nothing, an object without members."""
    shape = operation_model(name, operation).output_shape
    return Schema("object") if shape is None else schema(shape)


@cache
def schema(shape: Shape) -> Schema:
    """Return *shape* as a schema; its `note` is the shape."""
    kind, meta = KINDS[shape.type_name], shape.metadata
    if kind == "object":
        own: Any = shape
        return Schema(
            kind,
            lambda: {name: schema(member) for name, member in own.members.items()},
            frozenset(own.required_members),
            note=shape,
        )
    if kind in ("list", "map"):
        item = shape.member if kind == "list" else shape.value
        return Schema(kind, item_of=lambda: schema(item), note=shape)
    enum = tuple(meta.get("enum", ()))
    return Schema(kind, enum=enum, least=meta.get("min"), most=meta.get("max"), note=shape)


def reply(name: str, operation: str, value: Mapping[str, Any]) -> Reply:
    """Return the reply in which the service says *value*, with what no model has kept where JSON can."""
    model = operation_model(name, operation)
    status = int(model.http.get("responseCode", 200))
    headers = {**ID, "Content-Type": content_type(name), **_headers(model, value)}
    return Reply(status, headers, _body(name, model, value))


def refusal(name: str, code: str, status: int, message: str = "no") -> Reply:
    """Return an error in the protocol of the service."""
    headers = {**ID, "Content-Type": content_type(name)}
    kind = protocol(name)
    if kind == "rest-json":
        said = json.dumps({"message": message}, ensure_ascii=False).encode()
        return Reply(status, {**headers, "x-amzn-errortype": code}, said)
    if kind == "json":
        said = json.dumps({"__type": code, "message": message}, ensure_ascii=False).encode()
        return Reply(status, headers, said)
    error = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    text = {
        "rest-xml": f"<Error>{error}<RequestId>r-1</RequestId></Error>",
        "query": f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error><RequestId>r-1</RequestId></ErrorResponse>",
        "ec2": f"<Response><Errors><Error>{error}</Error></Errors><RequestID>r-1</RequestID></Response>",
    }[kind]
    return Reply(status, headers, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode())


# What the HTTP library itself reads: drawn freely, these would be a reply that no service sends.
OF_HTTP = ("ContentLength", "ContentEncoding", "ContentRange", "Checksum")


def _located(model: OperationModel) -> Iterator[tuple[str, Any]]:
    members = model.output_shape.members if model.output_shape else {}
    for name, member in members.items():
        if member.serialization.get("location") in ("header", "headers"):
            yield name, member


def _headers(model: OperationModel, value: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, member in _located(model):
        said = value.get(name)
        key = member.serialization.get("name", name)
        if said is None or name.startswith(OF_HTTP):
            continue
        if member.type_name == "map":
            found |= {
                f"{key}{k}": _plain(v, member.value) for k, v in said.items() if v is not None
            }
        elif member.type_name != "list":
            found[key] = _plain(said, member)
    return found


def _plain(value: Any, shape: Shape) -> str:
    """Return a value as a header has it: header lines are of one line, and of ASCII."""
    if isinstance(value, datetime):
        return format_datetime(value, usegmt=True)
    text = _text(value, shape)
    return text if text.isascii() and text.isprintable() else "x"


def _body(name: str, model: OperationModel, value: Mapping[str, Any]) -> bytes:
    shape = model.output_shape
    payload = shape.serialization.get("payload") if shape else None
    if shape is not None and payload and shape.members[payload].type_name == "blob":
        return bytes(value.get(payload) or b"")
    inner = value.get(payload) or {} if payload else value
    kind = protocol(name)
    if kind in ("json", "rest-json"):
        target = shape.members[payload] if shape is not None and payload else shape
        return json.dumps(_json(inner, target), ensure_ascii=False).encode()
    if shape is None:
        return b"" if kind == "rest-xml" else _wrapped(model, kind, "").encode()
    located = {n for n, _ in _located(model)}
    if kind == "rest-xml" and not set(shape.members) - located:
        return b""
    if payload and kind == "rest-xml":
        of_payload = "".join(_members(inner, shape.members[payload]))
        return _named(payload, of_payload).encode()
    body = {k: v for k, v in inner.items() if k not in located}
    return _wrapped(model, kind, "".join(_members(body, shape))).encode()


def _wrapped(model: OperationModel, kind: str, content: str) -> str:
    shape = model.output_shape
    if kind == "rest-xml":
        word = (shape.serialization.get("name") if shape else None) or f"{model.name}Result"
        return _named(word, content)
    if kind == "ec2":
        # What answers with nothing else says so with <return>, which the model leaves out.
        done = content if shape is not None else "<return>true</return>"
        return f"<{model.name}Response><requestId>r-1</requestId>{done}</{model.name}Response>"
    within = shape.serialization.get("resultWrapper") if shape else None
    result = f"<{within}>{content}</{within}>" if within else content
    meta = "<ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata>"
    return f"<{model.name}Response>{result}{meta}</{model.name}Response>"


def _named(word: str, content: str) -> str:
    return f'<?xml version="1.0"?><{word} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{content}</{word}>'


def _json(value: Any, shape: Any) -> Any:
    if value is None or shape is None:
        return value
    if shape.type_name == "structure":
        if not isinstance(value, Mapping):
            return value
        return {
            shape.members[k].serialization.get("name", k) if k in shape.members else k: _json(
                v, shape.members.get(k)
            )
            for k, v in value.items()
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_json(v, shape.member) for v in value]
    if shape.type_name == "map" and isinstance(value, Mapping):
        return {k: _json(v, shape.value) for k, v in value.items()}
    if isinstance(value, datetime):
        form = shape.serialization.get("timestampFormat")
        return value.isoformat() if form == "iso8601" else value.timestamp()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _members(value: Mapping[str, Any], shape: Any) -> Iterator[str]:
    for name, said in value.items():
        member = shape.members.get(name)
        if said is None:
            continue
        if member is None:
            yield f"<{name}><a>1</a></{name}>"
        else:
            yield from _element(_tag(member, name), said, member)


def _tag(member: Shape, name: str) -> str:
    if member.type_name == "list" and member.serialization.get("flattened"):
        return str(
            member.member.serialization.get("name") or member.serialization.get("name") or name
        )
    return str(member.serialization.get("name", name))


def _element(tag: str, value: Any, shape: Any) -> Iterator[str]:
    if shape.serialization.get("xmlAttribute"):
        return
    if shape.type_name == "list":
        items = [text for item in value for text in _element(_item(tag, shape), item, shape.member)]
        yield (
            "".join(items)
            if shape.serialization.get("flattened")
            else f"<{tag}>{''.join(items)}</{tag}>"
        )
    elif shape.type_name == "structure":
        yield f"<{tag}>{''.join(_members(value, shape))}</{tag}>"
    elif shape.type_name == "map":
        pairs = [
            f"<entry><key>{escape(k)}</key>{''.join(_element('value', v, shape.value))}</entry>"
            for k, v in value.items()
        ]
        yield f"<{tag}>{''.join(pairs)}</{tag}>"
    else:
        yield f"<{tag}>{escape(_text(value, shape))}</{tag}>"


def _item(tag: str, shape: Any) -> str:
    if shape.serialization.get("flattened"):
        return tag
    return str(shape.member.serialization.get("name", "member"))


def _text(value: Any, shape: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
