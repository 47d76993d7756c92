"""The key by which somebody who is logged in signs for jobs: what it signs is whole, or an error says what is wrong."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.storage.blob import UserDelegationKey, generate_blob_sas

from runspec_azure.session.clients import Session
from runspec_azure.signed import Signer
from runspec_azure.store import Blobs
from runspec_jobs.provider import CredentialsError
from tests.drawn.azure_cases import outcome
from tests.drawn.azure_cloud import XML
from tests.drawn.azure_storage import DELEGATED, Case, delegation, of_delegation
from tests.drawn.drawing import COUNT, tried
from tests.support import certificates
from tests.support.azure.resource_manager import Login
from tests.support.azure.specs import options
from tests.support.http_server import ReceivedRequest, Reply, Server

pytestmark = pytest.mark.slow  # hundreds of answers
TRUTH = Reply(200, XML, delegation(DELEGATED))
BLOB = "runspec/学習 1.txt"
NAMES = {
    "signed_oid": "SignedOid",
    "signed_tid": "SignedTid",
    "signed_start": "SignedStart",
    "signed_expiry": "SignedExpiry",
    "signed_service": "SignedService",
    "signed_version": "SignedVersion",
    "value": "Value",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Speak https, since the SDK sends no login over http, with an authority that a company's CA would be named as."""
    shown = certificates.made(tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.shown, shown.key)
    with pytest.MonkeyPatch.context() as patch, Server(tls=context) as found:
        patch.setenv("REQUESTS_CA_BUNDLE", str(shown.authority))
        yield found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two tries."""
    pause = time.sleep
    monkeypatch.setattr(time, "sleep", lambda wanted_s: pause(min(wanted_s, 0.0005)))
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # thousands of lines


def signer(server: Server) -> Signer:
    session = Session(options(storage_key=None, blob_url=server.url))
    session.__dict__["login"] = Login()
    return Signer(Blobs(session))


def signed(url: str) -> Mapping[str, str]:
    return {k: v[0] for k, v in parse_qs(urlsplit(url).query).items()}


def expected(key: Mapping[str, str | None], ends: str) -> Mapping[str, str]:
    """Sign with *key* as it was sent."""
    own = UserDelegationKey()  # type: ignore[no-untyped-call]  # as the SDK has it
    for name, sent in NAMES.items():
        setattr(own, name, key[sent])
    query = generate_blob_sas(
        "jobs",
        "jobs",
        BLOB,
        user_delegation_key=own,
        permission="r",
        protocol="https",
        expiry=ends,
    )
    return signed(f"?{query}")


def test_whatever_is_answered_a_signature_is_by_the_whole_key_or_an_error_says_what_is_wrong(
    server: Server,
) -> None:
    def check(drawn: tuple[Case, Mapping[str, str | None]]) -> None:
        case, key = drawn
        served: list[ReceivedRequest] = []

        def answer(asked: ReceivedRequest) -> Reply:
            served.append(asked)
            return case.answer(asked) if len(served) <= case.often else TRUTH

        server.answering = answer
        found = outcome(lambda: signer(server).with_urls({"$signed": f"r {BLOB}"}))
        assert served and not server.wrong, (found.error, server.wrong)
        assert all(one.headers["authorization"] == "Bearer a-token" for one in served)
        if case.kind == "told":
            assert found.error is None, f"it was told the truth, and said {found.error!r}"
        if found.error is None:
            assert all(key.values()), f"signed with {key}"
            query = signed(found.value)
            assert query == expected(key, query["se"])
        elif case.status in (401, 403):
            assert isinstance(found.error, CredentialsError), repr(found.error)

    assert tried("azure blobs: sign", of_delegation(), check) >= COUNT
