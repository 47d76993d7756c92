"""What the SDKs raise, in the core's words."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from azure.core import exceptions
from obstore import exceptions as bulk

from runspec_azure.errors import translated
from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError, RunspecError


def refused(
    status: int,
    kind: type[exceptions.HttpResponseError] | None = None,
    code: str = "",
    retry_after: str | None = None,
) -> Exception:
    found = (kind or exceptions.HttpResponseError)("no")
    found.status_code = status
    found.error = exceptions.ODataV4Format({"code": code, "message": "no"})
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    found.response = SimpleNamespace(headers=headers)
    return found


CASES: dict[str, tuple[Callable[[], Exception], type[RunspecError], bool]] = {
    "too many": (lambda: refused(429), RemoteError, True),
    "wrong": (lambda: refused(400), RemoteError, False),
    "there is one": (lambda: refused(409, exceptions.ResourceExistsError), RemoteError, False),
    "not allowed": (lambda: refused(403), CredentialsError, False),
    "nobody": (lambda: refused(401, exceptions.ClientAuthenticationError), CredentialsError, False),
    "the login is down": (
        lambda: exceptions.ClientAuthenticationError(
            "Authentication failed: NewConnectionError(...): Failed to establish a new connection"
        ),
        RemoteError,
        True,
    ),
    "broken": (lambda: refused(500), NoAnswer, True),
    "a gateway": (lambda: refused(502), NoAnswer, True),
    "unavailable": (lambda: refused(503), NoAnswer, True),
    "busy": (lambda: refused(503, code="ServerBusy"), RemoteError, True),
    "unavailable for a time": (lambda: refused(503, retry_after="7"), RemoteError, True),
    "not known": (lambda: refused(501), RemoteError, False),
    "not known to a store": (
        lambda: bulk.GenericError("501 <Error><Code>NotImplemented</Code></Error>"),
        RemoteError,
        False,
    ),
    "of endless depth": (lambda: RecursionError("too deep"), NoAnswer, False),
    "no status": (lambda: refused(0), NoAnswer, False),
    "cut off": (lambda: exceptions.DecodeError("x"), NoAnswer, False),
    "reset": (lambda: exceptions.ServiceResponseError("x"), NoAnswer, False),
    "never came": (lambda: exceptions.ServiceRequestError("NewConnectionError"), RemoteError, True),
    "gone in between": (lambda: exceptions.ServiceRequestError("broken pipe"), NoAnswer, False),
    "blobs": (lambda: bulk.GenericError("x"), NoAnswer, False),
    "blobs denied": (lambda: bulk.PermissionDeniedError("x"), CredentialsError, False),
}


@pytest.mark.parametrize("made,kind,transient", CASES.values(), ids=CASES)
def test_whether_something_was_made_is_told_apart(
    made: Callable[[], Exception], kind: type[RunspecError], transient: bool
) -> None:
    with pytest.raises(RunspecError) as caught, translated("Job_Add"):
        raise made()

    assert type(caught.value) is kind
    assert getattr(caught.value, "transient", False) is transient
    assert caught.value.message.startswith("Job_Add")


@pytest.mark.parametrize(
    ("asked", "seconds"), [("7", 7.0), (None, None), ("Wed, 25 Nov 2026 00:00:00 GMT", None)]
)
def test_the_pause_that_a_busy_service_asks_for_is_kept(
    asked: str | None, seconds: float | None
) -> None:
    with pytest.raises(RemoteError) as caught, translated("Job_Add"):
        raise refused(503, code="ServerBusy", retry_after=asked)

    assert caught.value.retry_after_s == seconds


def test_a_message_is_one_line_whatever_the_service_says() -> None:
    error = exceptions.HttpResponseError("no")
    error.status_code = 400
    detail = {"code": "one\ntwo", "message": "three\nfour"}
    error.error = exceptions.ODataV4Format(
        {"code": "Bad", "message": "no\nmore", "details": [detail]}
    )

    with pytest.raises(RemoteError) as caught, translated("Clusters_Delete"):
        raise error

    assert caught.value.message == "Clusters_Delete: Bad: no; one two: three four"


@pytest.mark.parametrize(
    "kind", [exceptions.HttpResponseError, exceptions.ServiceResponseError, bulk.GenericError]
)
def test_no_signature_is_in_a_message(kind: type[Exception]) -> None:
    url = "https://a.blob.core.windows.net/c?se=2026&sp=r&sig=abc%2Fdef"

    with pytest.raises(RunspecError) as caught, translated("read"):
        raise kind(f"cannot get {url}")

    assert "abc" not in caught.value.message
    assert "sig=..." in caught.value.message
