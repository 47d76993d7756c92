"""The operations of Azure that our clients call, by the table that `azure_facts` made: what answers may look like."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from tests.drawn.azure_facts import TABLE
from tests.drawn.schema import Schema
from tests.support.http_server import ReceivedRequest, Reply

JSON = "application/json; odata=minimalmetadata"
# https://learn.microsoft.com/rest/api/batchservice/batch-status-and-error-codes
DURATIONS = ("PT5M", "PT0S", "P1D", "P10675199DT2H48M5.4775807S")
PLAIN = {"date-time": "time", "file": "bytes"}


class Operation(NamedTuple):
    """What the table has of one operation: *answers* by their status, None for one without a body."""

    name: str
    service: str
    method: str
    path: str
    answers: Mapping[int, Schema | None]
    error: Schema | None
    produces: tuple[str, ...]
    next: str | None

    @property
    def lists(self) -> bool:
        return self.next is not None


@cache
def facts() -> Any:
    return json.loads(TABLE.read_text(encoding="utf-8"))


@cache
def operations(part: str = "operations") -> Mapping[str, Operation]:
    """Return every operation by its name; those of the *part* `setup` are asked by a setup alone."""
    found = {}
    for name, one in facts()[part].items():
        answers = {
            int(k): None if v is None else schema(_key(v)) for k, v in one["answers"].items()
        }
        error = None if one["error"] is None else schema(_key(one["error"]))
        found[name] = Operation(
            name,
            one["service"],
            one["method"],
            one["path"],
            answers,
            error,
            tuple(one["produces"]),
            one["next"],
        )
    return found


def _key(kind: Any) -> str:
    return json.dumps(kind)


@cache
def schema(key: str) -> Schema:
    """Return the schema of a type, which is given in the table's words, as JSON."""
    kind = json.loads(key)
    if isinstance(kind, list):
        word, inner = kind
        if word == "enum":
            return Schema("string", enum=tuple(inner))
        return Schema(word, item_of=lambda: schema(_key(inner)))
    if ":" in kind:
        model = facts()["models"][kind]
        own = model["properties"]
        return Schema(
            "object",
            members_of=lambda: {name: schema(_key(one)) for name, one in own.items()},
            required=frozenset(model["required"]),
        )
    if kind == "duration":
        return Schema("string", enum=DURATIONS, note="closed")
    if kind == "object":
        return Schema("map", item_of=lambda: Schema("any"))
    return Schema(PLAIN.get(kind, kind))


@cache
def _patterns() -> list[tuple[str, re.Pattern[str], str]]:
    found = []
    for name, one in operations().items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(one.path))
        found.append((one.method, re.compile(pattern, re.IGNORECASE), name))
    return sorted(found, key=lambda row: -len(row[1].pattern))


def operation_of(asked: ReceivedRequest) -> str | None:
    """Return the name of the operation that a request is, or None for one that is in no table."""
    # The next page of a list that is asked for by POST is got by GET.
    methods = (asked.method, "POST") if "page" in asked.query else (asked.method,)
    for wanted in methods:
        for method, pattern, name in _patterns():
            if method == wanted and pattern.fullmatch(asked.path):
                return name
    return None


def reply(status: int, value: Any = None, content_type: str = JSON) -> Reply:
    """Return an answer with *value* as JSON; None has no body."""
    body = b"" if value is None else json.dumps(value, default=_written).encode()
    return Reply(status, {"Content-Type": content_type} if body else {}, body)


def _written(value: Any) -> str:
    """Write a time as .NET does, with up to seven digits of a second."""
    assert isinstance(value, datetime)
    return f"{value:%Y-%m-%dT%H:%M:%S}{'.1234567' if value.year % 2 else ''}Z"
