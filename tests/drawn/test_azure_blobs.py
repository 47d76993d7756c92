"""The client's own way to Blob storage: whatever the service answers, it gets what is there, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from obstore.store import AzureStore

from runspec_azure.store import Blobs
from tests.drawn.azure_batch import Account
from tests.drawn.azure_cases import outcome
from tests.drawn.azure_cloud import ranged
from tests.drawn.azure_storage import Case, of_bytes, of_effects, of_list
from tests.drawn.drawing import COUNT, tried
from tests.support.http_server import ReceivedRequest, Reply, Server

pytestmark = pytest.mark.slow  # hundreds of answers each
KEY = "runspec/k"
DATA = "学習 𝄞\n".encode() * 40 + bytes(range(256))
BLOBS = {f"runspec/{name}": b"12345" for name in ("a", "c/d", "ü b", "学習.txt")}


class Way(NamedTuple):
    """What the client does, what is drawn, and what it gives where it is told the truth."""

    operation: str
    drive: Callable[[Blobs, Account], Any]
    expected: Any
    cases: Callable[[Account], st.SearchStrategy[Case]]
    absent: tuple[Any, ...] = ()


def opened(blobs: Blobs, account: Account) -> bytes:
    with blobs.opened(KEY) as stream:
        return stream.read()


def put(blobs: Blobs, account: Account) -> bytes:
    blobs.put("runspec/new", DATA)
    return account.cloud.blobs["runspec/new"]


def put_new(blobs: Blobs, account: Account) -> Any:
    return blobs.put_new("runspec/new", DATA), account.cloud.blobs.get("runspec/new")


def listing(blobs: Blobs, account: Account) -> Any:
    return sorted((one.key, one.size) for one in blobs.listing("runspec/"))


def remove(blobs: Blobs, account: Account) -> bool:
    blobs.remove([KEY])
    return KEY in account.cloud.blobs


def reading(account: Account) -> st.SearchStrategy[Case]:
    def truth(asked: ReceivedRequest) -> Reply:
        return ranged(DATA, asked.headers.get("range"))

    return of_bytes(truth, ranged(DATA, None))


def effects(operation: str) -> Callable[[Account], st.SearchStrategy[Case]]:
    return lambda account: of_effects(lambda asked: account.cloud.blob(operation, asked))


WAYS = {
    "read": Way("Blob_Get", lambda blobs, _: blobs.read(KEY), DATA, reading, (None,)),
    "part": Way("Blob_Get", lambda blobs, _: blobs.part(KEY, 3, 50), DATA[3:50], reading, (None,)),
    "open": Way("Blob_Get", opened, DATA, reading),
    "size": Way(
        "Blob_GetProperties", lambda blobs, _: blobs.size(KEY), len(DATA), reading, (None,)
    ),
    "put": Way("BlockBlob_Upload", put, DATA, effects("BlockBlob_Upload")),
    "put_new": Way(
        "BlockBlob_Upload",
        put_new,
        (True, DATA),
        effects("BlockBlob_Upload"),
        ((False, None), (False, DATA)),
    ),
    "listing": Way(
        "Container_ListBlobs",
        listing,
        sorted((name, 5) for name in BLOBS),
        lambda _: of_list(BLOBS, "runspec/"),
    ),
    "remove": Way(
        "Container_SubmitBatch", remove, False, effects("Container_SubmitBatch"), (True,)
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


@pytest.fixture
def account(server: Server, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("KEY", "c2VjcmV0IGtleQ==")
    return Account(server, "running")


def quick(server: Server) -> AzureStore:
    """Return a store that tries once more, and at once: obstore's own pauses are of seconds."""
    pause = timedelta(milliseconds=1)
    return AzureStore(
        "jobs",
        account_name="acct",
        endpoint=f"{server.url}/acct",
        account_key="c2VjcmV0IGtleQ==",
        client_options={"allow_http": True, "timeout": timedelta(seconds=20)},
        retry_config={
            "max_retries": 1,
            "retry_timeout": timedelta(seconds=10),
            "backoff": {"init_backoff": pause, "max_backoff": pause, "base": 2},
        },
    )


@pytest.mark.parametrize("name", WAYS)
def test_whatever_blob_storage_answers_the_client_gets_what_is_there_or_says_what_is_wrong(
    account: Account, server: Server, name: str
) -> None:
    way = WAYS[name]
    blobs = account.client().blobs
    blobs.__dict__["native"] = quick(server)
    server.wrong.clear()

    def check(case: Case) -> None:
        there = {} if name == "listing" else {KEY: DATA}
        account.cloud.blobs = {**BLOBS, **there}
        account.cloud.draw(way.operation, case.answer, case.often)
        found = outcome(lambda: way.drive(blobs, account))
        assert account.cloud.served
        assert not any((account.cloud.unknown, server.wrong)), (account.cloud.unknown, server.wrong)
        if case.kind == "told":
            assert found.error is None, f"it was told the truth, and said {found.error!r}"
            assert found.value == way.expected
        elif case.kind != "lacking" and found.error is None:
            gone = case.status in (0, 404, 409, 412)
            assert found.value in (way.expected, *(way.absent if gone else ())), f"{found.value!r}"

    assert tried(f"azure blobs: {name}", way.cases(account), check) >= COUNT
