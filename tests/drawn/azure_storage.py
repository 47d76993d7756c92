"""Drawn answers of Blob storage, of a machine's own metadata and of Key Vault: XML, JSON and bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from hypothesis import strategies as st

from tests.drawn import drawing
from tests.drawn.azure_cases import LASTING
from tests.drawn.azure_cloud import XML, Cloud, Truth, listed, refused
from tests.drawn.schema import LACKS, UNKNOWN_NAME, lacking
from tests.support.http_server import ReceivedRequest, Reply

# https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes and .../blob-service-error-codes
BLOB_ERRORS = (
    (400, "InvalidQueryParameterValue"),
    (400, "MissingRequiredHeader"),
    (401, "NoAuthenticationInformation"),
    (403, "AuthenticationFailed"),
    (403, "AuthorizationFailure"),
    (403, "AuthorizationPermissionMismatch"),
    (403, "InsufficientAccountPermissions"),
    (404, "BlobNotFound"),
    (404, "ContainerNotFound"),
    (409, "BlobAlreadyExists"),
    (409, "BlobArchived"),
    (409, "ContainerBeingDeleted"),
    (412, "ConditionNotMet"),
    (412, "LeaseIdMissing"),
    (416, "InvalidRange"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (500, "OperationTimedOut"),
    (503, "ServerBusy"),
)
# https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token#error-handling
MACHINE_ERRORS = (
    (400, "invalid_request"),
    (401, "unknown_source"),
    (403, "access_denied"),
    (404, "not_found"),
    (410, "gone"),
    (429, "too_many_requests"),
    (500, "unknown"),
    (503, "unavailable"),
)
TYPES = ("application/json; charset=utf-8", "application/json", "text/plain", "")


class Case(NamedTuple):
    """One answer as it was drawn, of the kinds of `azure_cases.Case`."""

    kind: str
    status: int
    often: int
    answer: Truth
    shown: str = ""

    def __repr__(self) -> str:
        return f"{self.kind} {self.status} x{self.often}: {self.shown[:2000]}"


class Machine(Cloud):
    """A machine of Azure, its store and a vault, with what is at some *paths* by its name."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        super().__init__()
        self.paths = paths

    def answer(self, asked: ReceivedRequest) -> Reply:
        name = self.paths.get(asked.path)
        if name is None:
            return super().answer(asked)
        if self.drawn is not None and self.drawn[0] == name and self.served < self.often:
            self.served += 1
            return self.drawn[1](asked)
        return self.truth[name](asked)


def _fixed(kind: str, reply: Reply, often: int) -> Case:
    shown = f"{dict(reply.headers)} {reply.body!r} sent={reply.sent}"
    return Case(kind, reply.status, often, lambda _: reply, shown)


OFTEN = st.sampled_from((1, LASTING))
WAIT = st.sampled_from(({}, {"Retry-After": "0"}, {"Retry-After": "1"}, {"Retry-After": "soon"}))


def _refusals(errors: Sequence[tuple[int, str]]) -> st.SearchStrategy[Case]:
    """Return a strategy for documented errors: as XML, as JSON, and without a body."""

    def made(error: tuple[int, str], form: str, often: int, wait: Mapping[str, str]) -> Case:
        status, code = error
        reply = refused(status, code)
        if form == "json":
            text = json.dumps({"error": {"code": code, "message": "nein, 駄目"}})
            reply = Reply(status, {"Content-Type": "application/json"}, text.encode())
        if form == "none":
            reply = reply._replace(body=b"")
        more = wait if status in (429, 503) else {}
        return _fixed("refused", reply._replace(headers={**reply.headers, **more}), often)

    forms = st.sampled_from(("xml", "json", "none"))
    return st.builds(made, st.sampled_from(errors), forms, OFTEN, WAIT)


def _odd(content_type: str) -> st.SearchStrategy[Case]:
    return st.builds(
        lambda reply, often: _fixed("odd", reply, often), drawing.odd(content_type), OFTEN
    )


def _cut(reply: Reply, *, unseen: bool = True) -> st.SearchStrategy[Case]:
    ends = drawing.cut(reply)
    seen = ends.filter(lambda found: found.sent is not None)
    return st.builds(
        lambda found, often: _fixed("cut", found, often), ends if unseen else seen, OFTEN
    )


def of_bytes(
    truth: Truth, whole: Reply, errors: Sequence[tuple[int, str]] = BLOB_ERRORS
) -> st.SearchStrategy[Case]:
    """Return a strategy for answers with what lies at a key, which *truth* gives: ranges of it, too."""

    def typed(content_type: str, more: Mapping[str, str]) -> Case:
        def answer(asked: ReceivedRequest) -> Reply:
            found = truth(asked)
            return found._replace(headers={**found.headers, **more, "Content-Type": content_type})

        return Case("told", 200, LASTING, answer, f"{content_type} {dict(more)}")

    kinds = st.sampled_from((*TYPES, "application/octet-stream", "text/html"))
    more = st.sampled_from(({}, {"x-ms-" + UNKNOWN_NAME: "x"}, {"x-ms-meta-a": ""}))
    told = st.builds(typed, kinds, more)
    broken = _cut(whole, unseen=False) if whole.body else told
    return st.one_of(told, _refusals(errors), broken, _odd("application/octet-stream"))


def of_effects(truth: Truth) -> st.SearchStrategy[Case]:
    """Return a strategy for answers to what is put: it is done, or refused, or it is done and nobody hears of it."""

    def unheard(often: int) -> Case:
        def answer(asked: ReceivedRequest) -> Reply:
            truth(asked)
            return Reply(0)

        return Case("cut", 0, often, answer, "done and not told")

    told = st.builds(lambda: Case("told", 201, LASTING, truth, ""))
    return st.one_of(told, _refusals(BLOB_ERRORS), _odd("application/xml"), OFTEN.map(unheard))


def of_copies(truth: Truth) -> st.SearchStrategy[Case]:
    """Return a strategy for answers to a copy, beside those to what is put: it is not done yet, or never will be."""

    def unfinished(status: str | None, code: int) -> Case:
        said = {} if status is None else {"x-ms-copy-status": status}
        return _fixed("lacking", Reply(code, {"x-ms-copy-id": "c", **said}), LASTING)

    statuses = st.sampled_from(("pending", "aborted", "failed", "", None))
    others = st.builds(unfinished, statuses, st.sampled_from((200, 201, 202)))
    return of_effects(truth) | others


def of_json(
    value: Any,
    errors: Sequence[tuple[int, str]] = MACHINE_ERRORS,
    told: st.SearchStrategy[Any] | None = None,
) -> st.SearchStrategy[Case]:
    """Return a strategy for answers whose truth is *value*, or what *told* draws."""

    def reply(found: Any, content_type: str) -> Reply:
        text = json.dumps(found, ensure_ascii=False)
        return Reply(200, {"Content-Type": content_type} if content_type else {}, text.encode())

    kinds = st.sampled_from(TYPES)
    extra: list[dict[str, Any]] = [{}, {UNKNOWN_NAME: None}, {UNKNOWN_NAME: {"a": [1]}}]
    more = st.sampled_from(extra)
    good = (st.just(value) if told is None else told).flatmap(
        lambda one: more.map(lambda m: {**one, **m})
    )
    truths = st.builds(lambda one, kind: _fixed("told", reply(one, kind), LASTING), good, kinds)
    less = LACKS.map(lambda lack: _fixed("lacking", reply(lacking(value, lack).value, ""), LASTING))
    members = [{**value, name: one} for name in value for one in (7, [0], {"a": None})]
    other = st.sampled_from(([], [1], "x", 0, None, True, {}, [[]], *members))
    strange = other.map(lambda one: _fixed("lacking", reply(one, TYPES[0]), LASTING))
    broken = _cut(reply(value, TYPES[0]))
    return st.one_of(truths, less, strange, _refusals(errors), broken, _odd(TYPES[0]))


# The key of whoever is logged in


# https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key#response-body
DELEGATED = {
    "SignedOid": "11111111-2222-3333-4444-555555555555",
    "SignedTid": "66666666-7777-8888-9999-000000000000",
    "SignedStart": "2026-06-01T00:00:00Z",
    "SignedExpiry": "2026-06-02T00:00:00Z",
    "SignedService": "b",
    "SignedVersion": "2025-01-05",
    "Value": "c2VjcmV0IGtleSB0aGF0IGlzIG5vIGtleQ==",
}
# https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#bearer-challenge
AUTHORITY = "https://login.microsoftonline.com/t/oauth2/authorize"
CHALLENGES = (
    f"Bearer authorization_uri={AUTHORITY} resource_id=https://storage.azure.com",
    "Bearer",
    "Bearer authorization_uri=",
    'Basic realm="proxy"',
    "",
)


def delegation(key: Mapping[str, str | None], form: str = "") -> bytes:
    """Write a key as the service does, or in another *form* of the same."""
    rows = [
        f"<{name}/>" if value is None else f"<{name}>{escape(value)}</{name}>"
        for name, value in key.items()
    ]
    if form == "unknown":
        rows[2:2] = [f'<{UNKNOWN_NAME} a="b"><a>é</a></{UNKNOWN_NAME}>', "<SignedMore/>"]
    mark = "\ufeff" if form == "marked" else ""
    head = "" if form == "bare" else '<?xml version="1.0" encoding="utf-8"?>'
    inner = ("\n  " if form == "indented" else "").join(["", *rows])
    return f"{mark}{head}<UserDelegationKey>{inner}</UserDelegationKey>".encode()


def of_delegation() -> st.SearchStrategy[tuple[Case, Mapping[str, str | None]]]:
    """Return a strategy for answers with a key, each with what the key in it has."""

    def whole(form: str, kind: str) -> Case:
        return _fixed(
            "told", Reply(200, {"Content-Type": kind}, delegation(DELEGATED, form)), LASTING
        )

    def without(name: str, value: str | None, out: bool) -> tuple[Case, Mapping[str, str | None]]:
        key = {**DELEGATED, name: None if out else value}
        there = {k: v for k, v in key.items() if not out or k != name}
        return _fixed("lacking", Reply(200, XML, delegation(there)), LASTING), key

    def challenge(words: str, often: int) -> Case:
        return _fixed("refused", Reply(401, {**XML, "WWW-Authenticate": words}), often)

    forms = st.sampled_from(("", "indented", "unknown", "bare", "marked"))
    kinds = st.sampled_from(("application/xml", "application/xml; charset=utf-8", "text/xml"))
    told = st.builds(whole, forms, kinds)
    challenges = st.builds(challenge, st.sampled_from(CHALLENGES), OFTEN)
    cut = _cut(Reply(200, XML, delegation(DELEGATED)))
    same = st.one_of(told, _refusals(BLOB_ERRORS), challenges, cut, _odd("application/xml"))
    values = st.sampled_from((None, "", " ", "x", "駄目", "2026-06-01"))
    less = st.builds(without, st.sampled_from(sorted(DELEGATED)), values, st.booleans())
    return same.map(lambda case: (case, DELEGATED)) | less


# Lists


Change = Callable[[ElementTree.Element], None]


def of_list(blobs: Mapping[str, bytes], prefix: str) -> st.SearchStrategy[Case]:
    """Return a strategy for lists of *blobs*: in pages, with more or less in them, cut and refused."""
    names = sorted(name for name in blobs if name.startswith(prefix))
    cuts = st.lists(st.integers(0, len(names)), max_size=3).map(sorted)
    paged = st.builds(lambda at, more: _paged(blobs, names, at, more), cuts, st.booleans())
    whole = listed(blobs, {"prefix": prefix}).encode()
    less = st.builds(lambda pick, how: _less(whole, pick, how), st.integers(0, 2**16), _HOW)
    answer = Reply(200, XML, whole)
    return st.one_of(paged, less, _cut(answer), _refusals(BLOB_ERRORS), _odd("application/xml"))


_HOW = st.sampled_from(("out", "empty"))


def _paged(blobs: Mapping[str, bytes], names: Sequence[str], at: Sequence[int], more: bool) -> Case:
    """Split a list into pages, some of them empty; all but the last name the next."""
    ends = [*at, len(names)]
    parts = [names[a:b] for a, b in zip([0, *at], ends, strict=True)]

    def answer(asked: ReceivedRequest) -> Reply:
        number = int(asked.query.get("marker") or 0)
        page = {name: blobs[name] for name in parts[number]}
        marker = str(number + 1) if number + 1 < len(parts) else ""
        text = listed(page, {}, marker)
        if more:  # a mark of the order of bytes, as the service sends it, and what a later version may have
            text = text.replace(
                "<Properties>", f"<{UNKNOWN_NAME}>é<a/></{UNKNOWN_NAME}><Properties>"
            )
            text = "\ufeff" + text.replace("<Blobs>", "<MaxResults>5000</MaxResults><Blobs>")
        return Reply(200, XML, text.encode())

    return Case("told", 200, LASTING, answer, f"{parts}")


NEVER = {"out": {"Blob"}, "empty": {"Blobs"}}  # nobody can see that these were there


def _less(whole: bytes, pick: int, how: str) -> Case:
    root = ElementTree.fromstring(whole)
    pairs = [
        (parent, child) for parent in root.iter() for child in parent if child.tag not in NEVER[how]
    ]
    parent, child = pairs[pick % len(pairs)]
    if how == "out":
        parent.remove(child)
    else:
        child.clear()
    return _fixed("lacking", Reply(200, XML, ElementTree.tostring(root)), LASTING)
