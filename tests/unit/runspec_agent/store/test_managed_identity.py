"""A token by an identity of the machine: asked for as Azure says, kept while it is good, and never told."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from runspec_agent.base.boot import Ask
from runspec_agent.base.job_env import Failure
from runspec_agent.store import managed_identity
from runspec_agent.store.blob import REFUSED, BlobStore
from runspec_agent.store.managed_identity import Login
from runspec_emulators.azure_services.identity import Identity

pytestmark = pytest.mark.process

OURS, OTHER = "/subscriptions/s/ours", "/subscriptions/s/other"


@pytest.fixture
def identity() -> Iterator[Identity]:
    with Identity() as found:
        yield found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which nobody waits for."""
    found: list[float] = []
    monkeypatch.setattr(
        managed_identity, "time", SimpleNamespace(time=time.time, sleep=found.append)
    )
    return found


def test_a_token_is_for_storage_by_the_identity_that_was_named(identity: Identity) -> None:
    token = Login(OURS, identity.machine([OURS, OTHER])).token()

    assert identity.tokens.good(token, "https://storage.azure.com")
    assert [(one.resource, one.identity) for one in identity.asked] == [
        ("https://storage.azure.com/", OURS)
    ]


def test_a_token_is_asked_for_once_and_again_before_it_ends(identity: Identity) -> None:
    found = Login(OURS, identity.machine([OURS]))
    first = [found.token(), found.token()]
    identity.tokens.lasts_s = managed_identity.EARLY_S - 10
    short = Login(OURS, identity.machine([OURS]))
    second = [short.token(), short.token()]

    assert len(set(first)) == 1
    assert len(set(second)) == 2


def test_an_identity_that_the_machine_has_not_is_a_failure_that_nobody_tries_again(
    identity: Identity, pauses: list[float]
) -> None:
    with pytest.raises(Failure, match="RUNSPEC_IDENTITY: 400") as failure:
        Login(OTHER, identity.machine([OURS])).token()

    assert (failure.value.code, pauses) == (REFUSED, [])


def test_a_machine_that_is_busy_is_asked_again_after_longer_and_longer_pauses(
    identity: Identity, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, refused = identity.answer, [429, 503, 404]
    monkeypatch.setattr(
        identity,
        "answer",
        lambda *given: (refused.pop(), {}) if refused else answer(*given),
    )

    assert Login(OURS, identity.machine([OURS])).token()
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


@pytest.mark.parametrize(
    "body", [{}, {"access_token": "t"}, {"access_token": "t", "expires_on": "soon"}]
)
def test_an_answer_without_a_token_is_a_failure_in_the_end(
    body: dict[str, str], identity: Identity, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "answer", lambda *_: (200, body))

    with pytest.raises(Failure, match="issues no token") as failure:
        Login(OURS, identity.machine([OURS])).token()

    assert (failure.value.code, len(pauses)) == (REFUSED, managed_identity.TRIES - 1)


def test_requests_carry_the_token_in_a_header_and_nothing_in_the_url(identity: Identity) -> None:
    env = {"RUNSPEC_STORE": "https://a.blob.core.windows.net/c/p", "RUNSPEC_IDENTITY": OURS}
    found = BlobStore({**env, **identity.machine([OURS])})

    headers = found.sign(Ask("PUT", "k"), "", "")

    kind, _, token = headers["Authorization"].partition(" ")
    assert kind == "Bearer"
    assert identity.tokens.good(token, "https://storage.azure.com")
    assert found.path_of(Ask("PUT", "k", (("comp", "block"),)))[1] == "comp=block"


@pytest.mark.parametrize(
    ("headers", "identities"), [({}, [OURS]), ({"Metadata": "true"}, [OURS, OTHER])]
)
def test_the_endpoint_gives_nothing_without_its_header_or_for_one_of_many(
    identity: Identity, headers: dict[str, str], identities: list[str]
) -> None:
    base = identity.machine(identities)[managed_identity.ELSEWHERE]
    query = urlencode({"api-version": "2018-02-01", "resource": "https://storage.azure.com/"})
    host, _, machine = base.partition("//")[2].partition("/")
    link = http.client.HTTPConnection(host, timeout=10)

    link.request("GET", f"/{machine}/metadata/identity/oauth2/token?{query}", headers=headers)

    assert link.getresponse().status == 400
    link.close()
