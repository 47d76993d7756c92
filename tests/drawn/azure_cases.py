"""Drawn answers of one operation of Azure: they tell the truth, leave out some of it, refuse or break off."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from runspec_jobs.provider import (
    Conflict,
    CredentialsError,
    NoAnswer,
    RemoteError,
    RunspecError,
)
from tests.drawn import drawing
from tests.drawn.azure_cloud import Truth
from tests.drawn.azure_table import JSON, Operation, reply
from tests.drawn.schema import LACKS, anchored, grown, lacking, values
from tests.support.http_server import ReceivedRequest, Reply

LASTING = 1000  # times: whoever tries again gets the same answer
# https://learn.microsoft.com/rest/api/batchservice/batch-status-and-error-codes
BATCH_ERRORS = (
    (400, "InvalidPropertyValue"),
    (400, "OutOfRangeInput"),
    (401, "AuthenticationFailed"),
    (403, "AuthenticationFailed"),
    (403, "InsufficientAccountPermissions"),
    (404, "ResourceNotFound"),
    (404, "JobNotFound"),
    (404, "TaskNotFound"),
    (404, "PoolNotFound"),
    (404, "AccountNotFound"),
    (409, "JobExists"),
    (409, "PoolExists"),
    (409, "JobBeingDeleted"),
    (409, "PoolBeingDeleted"),
    (409, "PoolBeingResized"),
    (409, "JobCompleted"),
    (409, "JobBeingTerminated"),
    (409, "TaskCompleted"),
    (409, "TaskFilesUnavailable"),
    (409, "TaskFilesCleanedup"),
    (409, "AccountIsDisabled"),
    (412, "ConditionNotMet"),
    (413, "RequestBodyTooLarge"),
    (416, "InvalidRange"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (500, "OperationTimedOut"),
    (503, "ServerBusy"),
    (503, "TooManyEnableAutoScaleRequests"),
)
# https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
ARM_ERRORS = (
    (400, "InvalidRequestContent"),
    (400, "NoRegisteredProviderFound"),
    (401, "ExpiredAuthenticationToken"),
    (403, "AuthorizationFailed"),
    (404, "ResourceNotFound"),
    (404, "ResourceGroupNotFound"),
    (404, "SubscriptionNotFound"),
    (404, "InvalidResourceType"),
    (409, "Conflict"),
    (409, "AnotherOperationInProgress"),
    (412, "PreconditionFailed"),
    (429, "TooManyRequests"),
    (500, "InternalServerError"),
    (502, "BadGateway"),
    (503, "ServerTimeout"),
    (504, "GatewayTimeout"),
)
ERRORS: Mapping[str, Sequence[tuple[int, str]]] = {"batch": BATCH_ERRORS}
AGAIN = (408, 429, 500, 502, 503, 504)  # what azure-core tries again by itself


class Case(NamedTuple):
    """One answer as it was drawn. *kind* says what may be expected of a client that gets it.

    told: the truth, with anything beside it. strange: anything about the same things. lacking: something of it is not
    there. refused: an error. odd: what no description has. cut: it breaks off.
    """

    kind: str
    status: int
    code: str
    often: int
    shown: str
    answer: Truth

    def __repr__(self) -> str:
        return f"{self.kind} {self.status} {self.code} x{self.often}: {self.shown[:2000]}"


def cases(
    operation: Operation, known: Any, told: st.SearchStrategy[Truth] | None = None
) -> st.SearchStrategy[Case]:
    """Return a strategy for answers of *operation*, whose truth is *known*, or what *told* draws."""
    kinds = ["told"] * 8 + ["lacking"] * 4 + ["refused"] * 5 + ["odd"] * 2 + ["cut"] * 3
    kinds += ["strange"] * 3
    if operation.lists:
        kinds += ["paged"] * 4
    if all(one is None for one in operation.answers.values()):
        kinds = ["told"] * 4 + ["refused"] * 6 + ["odd"] * 2

    @st.composite
    def whole(draw: Any) -> Case:
        kind = draw(st.sampled_from(kinds))
        often = draw(st.sampled_from((1, LASTING)))
        if kind == "refused":
            return _refused(draw, operation, often)
        if kind == "odd":
            nothing = Reply(min(operation.answers), {"Content-Type": JSON})
            found = draw(drawing.odd(JSON) | st.just(nothing))
            return _static("odd", found, often)
        status = draw(st.sampled_from(sorted(operation.answers)))
        if told is not None:
            answer = draw(told)
            return Case("told", status, "", LASTING, "", answer)
        value = _value(draw, operation, status, _named(known) if kind == "strange" else known)
        if value is None:
            return _static("told", reply(status), LASTING)
        if kind == "told":
            return _static("told", reply(status, grown(draw, value), draw(_CONTENT_TYPES)), LASTING)
        if kind == "paged":
            return _paged(draw, operation, value)
        if kind == "strange":
            return _static("strange", reply(status, value), LASTING)
        if kind == "lacking":
            return _static("lacking", reply(status, lacking(value, draw(LACKS)).value), LASTING)
        return _static("cut", draw(drawing.cut(reply(status, value))), often)

    return whole()


def _value(draw: Any, operation: Operation, status: int, known: Any) -> Any:
    schema = operation.answers[status]
    if schema is None:
        return None
    found = anchored(draw(values(schema)), known)
    if operation.next is not None:
        found.pop(operation.next, None)
        if end := draw(st.sampled_from((None, "null", "empty"))):
            found[operation.next] = None if end == "null" else ""
    return found


_CONTENT_TYPES = st.sampled_from(
    (JSON, "application/json", "application/json; charset=utf-8", "application/json;odata=x")
)


def _named(known: Any) -> Any:
    """Return what of the truth says which things it is about, and nothing of how they are."""
    if isinstance(known, Mapping):
        kept = {key: _named(one) for key, one in known.items()}
        return {k: v for k, v in kept.items() if k in ("id", "name") or isinstance(v, dict | list)}
    return [_named(one) for one in known] if isinstance(known, list) else known


def _static(kind: str, found: Reply, often: int, code: str = "") -> Case:
    shown = f"{dict(found.headers)} {found.body!r} sent={found.sent}"
    return Case(kind, found.status, code, often, shown, lambda _: found)


def _paged(draw: Any, operation: Operation, value: Mapping[str, Any]) -> Case:
    """Split a list into pages, some of them empty, each with a link to the next."""
    count = len(value["value"])
    marks = sorted(draw(st.lists(st.integers(0, count), min_size=1, max_size=3)))
    parts = [
        value["value"][begin:end] for begin, end in zip([0, *marks], [*marks, count], strict=True)
    ]
    name = str(operation.next)

    def answer(asked: ReceivedRequest) -> Reply:
        number = int(asked.query.get("page", 0))
        page = {**value, "value": parts[number]}
        page.pop(name, None)
        if number + 1 < len(parts):
            query = "&".join(f"{k}={v}" for k, v in asked.query.items() if k == "api-version")
            page[name] = f"http://{asked.headers['host']}{asked.path}?{query}&page={number + 1}"
        return reply(200, page)

    return Case("told", 200, "paged", LASTING, json.dumps(parts, default=str), answer)


def _refused(draw: Any, operation: Operation, often: int) -> Case:
    status, code = draw(st.sampled_from(ERRORS.get(operation.service, ARM_ERRORS)))
    headers = {"Retry-After": draw(st.sampled_from(("0", "1")))} if status in (429, 503) else {}
    if operation.method == "HEAD":
        return _static("refused", Reply(status, headers), often, code)
    truth: Any = {"error": {"code": code, "message": "no"}}
    if operation.service == "batch":
        truth = {"code": code, "message": {"lang": "en-us", "value": "no"}}
    value = anchored({} if operation.error is None else draw(values(operation.error)), truth)
    if draw(st.sampled_from((False, False, True))):
        value = lacking(value, draw(LACKS)).value
        code = "?"  # nobody can know it
    found = reply(status, value)
    return _static("refused", found._replace(headers={**found.headers, **headers}), often, code)


class Outcome(NamedTuple):
    """What a client made of its answers: a value, or what it raised."""

    value: Any
    error: RunspecError | None


WRONG = ("Traceback", "KeyError", "NoneType", "object has no", "<html", "Error(", "0x", "sig=ey")


def outcome(drive: Callable[[], Any]) -> Outcome:
    """Call *drive*. Whatever it raises that is not ours goes on: that is a crash."""
    try:
        return Outcome(drive(), None)
    except RunspecError as exc:
        return Outcome(None, _worded(exc))


def _worded(error: RunspecError) -> RunspecError:
    """Return *error* if its kind and its words are those of a service that refused or did not answer."""
    assert isinstance(error, RemoteError | NoAnswer | CredentialsError | Conflict), repr(error)
    assert error.message.strip(), "an error without a word"
    assert "\n" not in error.message, error.message
    assert not any(word in error.message for word in WRONG), error.message
    return error


def judged(case: Case, found: Outcome, expected: Any, *, absent: Sequence[Any] = ()) -> None:
    """Raise AssertionError for what a client must not make of *case*.

    *expected* is what it makes of the truth, and *absent* what it may make of something that is not there (any more).
    """
    if case.kind == "told":
        assert found.error is None, f"it was told the truth, and said {found.error!r}"
        assert found.value == expected, f"{found.value} for {expected}"
        return
    if case.kind in ("lacking", "strange"):
        return
    if found.error is None:
        passed = case.often == 1 or case.status < 400
        known = (expected, *absent) if passed or case.status in (404, 409, 412, 416) else absent
        assert found.value in known, f"{found.value} after {case}"
        return
    _fits(case, found.error)


def _fits(case: Case, error: RunspecError) -> None:
    """Raise AssertionError for an error of another kind than its answer."""
    if case.kind == "cut" or case.status < 400:
        assert isinstance(error, NoAnswer) or getattr(error, "transient", False), repr(error)
    elif case.status in (429, 503):  # 503 comes with Retry-After: it is throttling
        assert getattr(error, "transient", False), repr(error)
    elif case.status >= 500 or case.status == 408:
        assert isinstance(error, NoAnswer), repr(error)
    elif case.status in (401, 403):
        assert isinstance(error, CredentialsError), repr(error)
    else:
        assert isinstance(error, RemoteError | Conflict | NoAnswer), repr(error)
