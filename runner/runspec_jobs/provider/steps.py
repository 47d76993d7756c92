"""The steps of a plan, their requests, and names of resources that are derived from their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from runspec_agent.base.light_typing import NamedTuple

Response = Mapping[str, Any]
IN_TURN = "in_turn"


class Scope(StrEnum):
    """Whether the resource of a step belongs to one run, or outlives runs and is shared by runs with equal needs."""

    RUN = "run"
    SITE = "site"


class Request(NamedTuple):
    """One request, word for word: *params* are exactly what is sent.

    A mapping with one key stands for a value that is unknown while planning: `{"$ref": "step.field"}` for a field of
    an earlier step's answer, `{"$secret": "env:NAME"}` for a secret, `{"$file": "mount"}` for the content of a folder
    of this machine, `{"$signed": "GET key"}` for a signed URL. Right before the request is sent, the client inserts
    signed URLs, and the core inserts the other values.
    """

    service: str
    operation: str
    params: Mapping[str, Any]


class Step(NamedTuple):
    """One step of a plan: the request that makes a resource, and the request that deletes it.

    *settle_s* is the time in seconds that the service may take to list a new resource: after a request without an
    answer, `find` is called for this time before the request is repeated. *undo* is None if there is nothing to delete.
    """

    id: str
    title: str
    scope: Scope
    do: Request
    undo: Request | None = None
    settle_s: float = 0.0


class Setup(NamedTuple):
    """What is made in an account, as steps of a plan, and the settings of the profile that name it.

    *place* is the account and the region, for people and for the record. A value of *settings* may be the mark of a
    field of a step's answer, as in a request. *costs* and *notes* are lines for people. *data* has, for the id of a
    step whose resource holds what users store, the request that deletes all of that.
    """

    place: str
    steps: tuple[Step, ...]
    settings: Mapping[str, Any]
    costs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    data: Mapping[str, Request] = {}


def in_turn(*calls: Request, service: str = "runspec") -> Request:
    """Return one request that stands for several, for an undo that takes more than one."""
    return Request(service, IN_TURN, {"calls": [call._asdict() for call in calls]})


def requests_of(request: Request) -> tuple[Request, ...]:
    """Return the requests that *request* stands for: itself, or those that `in_turn` was given."""
    if request.operation == IN_TURN:
        return tuple(Request(**call) for call in request.params["calls"])
    return (request,)


def short_hash(value: Any) -> str:
    """Return 12 hexadecimal digits that are the same for equal JSON values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    # 48 bits: two of a million resources of an account are equal by chance once in five hundred times.
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def content_name(word: str, value: Any) -> str:
    """Return `runspec-WORD-HASH`: resources with equal content have one name, so that runs share them."""
    return f"runspec-{word}-{short_hash(value)}"


def answer_mark(run: str, step: str, field: str) -> dict[str, str]:
    """Return the mark of a field of the answer that a *step* of another *run* got.

    >>> answer_mark("prepare-7k2m9p", "job", "jobId")
    {'$answer': 'prepare-7k2m9p/job.jobId'}
    """
    return {"$answer": f"{run}/{step}.{field}"}
