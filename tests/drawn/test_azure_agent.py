"""What runs in a job on Azure gets what its store, its machine and a vault have, or a Failure, whatever they answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure
from runspec_agent.preemption.azure import ScheduledEventsWatcher
from runspec_agent.store import blob, key_vault, managed_identity, ranged_read, s3
from runspec_agent.store.base import Bucket
from runspec_agent.store.blob import BlobBucket
from runspec_agent.store.managed_identity import Login
from tests.drawn.azure_cloud import Truth, ranged
from tests.drawn.azure_storage import (
    Case,
    Machine,
    of_bytes,
    of_copies,
    of_effects,
    of_json,
    of_list,
)
from tests.drawn.drawing import COUNT, tried
from tests.support.http_server import ReceivedRequest, Reply, Server

pytestmark = pytest.mark.slow  # hundreds of answers each
PREFIX, KEY = "p", "k"
DATA = "学習 𝄞\n".encode() * 40 + bytes(range(256))
TOKEN, SECRET, NAME = "tok-é", "größer 𝄞 = 'x'", "vmss_3"
NAMES = ("a", "c/d", "ü b", "学習.txt")
BLOBS = {**{f"{PREFIX}/{name}": b"12345" for name in NAMES}, "other/x": b""}
WHEN = "Sun, 22 Nov 2026 00:30:00 GMT"
PATHS = {
    "/metadata/identity/oauth2/token": "Token",
    "/secrets/s": "Secret",
    "/metadata/scheduledevents": "Events",
    "/metadata/instance/compute/name": "Name",
}
GIVEN = {
    "access_token": TOKEN,
    "expires_on": "4102444800",
    "expires_in": "3599",
    "resource": "https://storage.azure.com/",
    "token_type": "Bearer",
}
VALUE = {"value": SECRET, "id": "https://v/secrets/s/1", "attributes": {"enabled": True}}


def event(kind: str, machine: str) -> dict[str, Any]:
    return {"EventId": "e", "EventType": kind, "Resources": [machine], "NotBefore": WHEN}


NOTICE = {
    "DocumentIncarnation": 1,
    "Events": [event("Freeze", NAME), event("Preempt", NAME)],
}


class Job(NamedTuple):
    """A job on a machine, whose every answer is right but what is drawn."""

    machine: Machine
    server: Server

    @property
    def env(self) -> dict[str, str]:
        return {
            "RUNSPEC_STORE": f"{self.server.url}/acct/jobs/{PREFIX}",
            "RUNSPEC_BLOB_URL": f"{self.server.url}/acct",
            "RUNSPEC_SAS": "sv=1&sig=secret",
            "RUNSPEC_IDENTITY": "/subscriptions/s/i",
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": self.server.url,
        }


class Way(NamedTuple):
    """What a job asks, what is drawn, and what it gets where it is told the truth; *absent*: where nothing is there."""

    operation: str
    drive: Callable[[Job], Any]
    expected: Any
    cases: Callable[[Machine], st.SearchStrategy[Case]]
    absent: tuple[Any, ...] = ()


def bucket(job: Job) -> BlobBucket:
    return BlobBucket()


def read(job: Job) -> bytes:
    with bucket(job).opened(KEY) as stream:
        return b"".join(iter(stream.read, b""))


def put(job: Job) -> Any:
    bucket(job).put("new", DATA)
    return job.machine.blobs[f"{PREFIX}/new"]


def claim(job: Job) -> Any:
    return bucket(job).claim("new", DATA), job.machine.blobs[f"{PREFIX}/new"]


def claim_late(job: Job) -> Any:
    return bucket(job).claim(KEY, b"x"), job.machine.blobs[f"{PREFIX}/{KEY}"]


def copy(job: Job) -> Any:
    bucket(job).copy("ü b", "new", 5)
    return job.machine.blobs.get(f"{PREFIX}/new")


def copy_blocks(job: Job) -> Any:
    bucket(job).copy(KEY, "new", len(DATA))
    return job.machine.blobs.get(f"{PREFIX}/new")


def delete(job: Job) -> Any:
    bucket(job).delete(KEY)
    return job.machine.blobs.get(f"{PREFIX}/{KEY}")


def listing(job: Job) -> Any:
    return sorted((one.key, one.size) for one in bucket(job).listing(""))


def token(job: Job) -> str:
    return Login(job.env["RUNSPEC_IDENTITY"], job.env).token()


def secret(job: Job) -> str:
    listed = f'{{"HF": "{job.server.url}/secrets/s"}}'
    env = {**job.env, key_vault.LISTED: listed, key_vault.AUDIENCE: "https://vault.azure.net"}
    key_vault.fill(Bucket(), env)
    return env["HF"]


def notice(job: Job) -> Any:
    """Look as the thread does, whose misses are no end."""
    watch = ScheduledEventsWatcher(job.env)
    for _ in range(3):
        try:
            if found := watch.look():
                return found
        except (OSError, ValueError, HTTPException):
            pass
    return None


def blob_read(machine: Machine) -> st.SearchStrategy[Case]:
    def truth(asked: ReceivedRequest) -> Reply:
        return ranged(DATA, asked.headers.get("range"))

    return of_bytes(truth, ranged(DATA, None))


def effects(
    operation: str, made: Callable[[Truth], st.SearchStrategy[Case]] = of_effects
) -> Callable[[Machine], st.SearchStrategy[Case]]:
    return lambda machine: made(lambda asked: machine.blob(operation, asked))


def notices(machine: Machine) -> st.SearchStrategy[Case]:
    """Draw events of any machine before the one of this machine."""
    kinds = st.sampled_from(("Freeze", "Reboot", "Redeploy", "Preempt", "xNew"))
    others = st.lists(st.builds(event, kinds, st.sampled_from(("vmss_30", "")))).map(
        lambda some: {**NOTICE, "Events": [*some, event("Preempt", NAME.upper())]}
    )
    return of_json(NOTICE, told=others)


SILENT = (None,)  # a machine that says nothing of an end is not about to end
WAYS = {
    "get": Way("Blob_Get", lambda job: bucket(job).get(KEY), DATA, blob_read, (None,)),
    "opened": Way("Blob_Get", read, DATA, blob_read),
    "put": Way("BlockBlob_Upload", put, DATA, effects("BlockBlob_Upload")),
    "claim": Way("BlockBlob_Upload", claim, (DATA, DATA), effects("BlockBlob_Upload")),
    "claim of another's": Way(
        "BlockBlob_Upload", claim_late, (DATA, DATA), effects("BlockBlob_Upload")
    ),
    "copy": Way("Blob_CopyFromURL", copy, b"12345", effects("Blob_CopyFromURL", of_copies)),
    "copy in blocks": Way(
        "BlockBlob_StageBlockFromURL", copy_blocks, DATA, effects("BlockBlob_StageBlockFromURL")
    ),
    "copy put together": Way(
        "BlockBlob_CommitBlockList", copy_blocks, DATA, effects("BlockBlob_CommitBlockList")
    ),
    "delete": Way("Blob_Delete", delete, None, effects("Blob_Delete"), (DATA,)),
    "listing": Way(
        "Container_ListBlobs",
        listing,
        sorted((name, 5) for name in NAMES),
        lambda machine: of_list(BLOBS, PREFIX),
    ),
    "token": Way("Token", token, TOKEN, lambda machine: of_json(GIVEN)),
    "secret": Way("Secret", secret, SECRET, lambda machine: of_json(VALUE)),
    "token of a secret": Way("Token", secret, SECRET, lambda machine: of_json(GIVEN)),
    "notice": Way("Events", notice, WHEN, notices, (None, "once")),
    "name": Way(
        "Name",
        notice,
        WHEN,
        lambda machine: of_bytes(
            lambda _: Reply(200, {}, NAME.encode()), Reply(200, {}, NAME.encode())
        ),
        SILENT,
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


@pytest.fixture
def job(server: Server, monkeypatch: pytest.MonkeyPatch) -> Job:
    quick = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    for module in (blob, ranged_read, boot, managed_identity, s3, key_vault):
        monkeypatch.setattr(module, "time", quick)
    monkeypatch.setattr(boot.Store, "tries", 2)
    monkeypatch.setattr(blob, "COPY_BYTES", 100)
    monkeypatch.setattr(blob, "BLOCK_BYTES", 500)
    monkeypatch.setattr(managed_identity, "TRIES", 2)
    monkeypatch.setattr(key_vault, "TRIES", 2)
    found = Job(Machine(PATHS), server)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    machine, server.answering = found.machine, found.machine.answer
    server.wrong.clear()
    for kind, known in (("Token", GIVEN), ("Secret", VALUE), ("Events", NOTICE)):
        machine.says(kind, known)
    machine.truth["Name"] = lambda _: Reply(200, {}, NAME.encode())
    return found


@pytest.mark.parametrize("name", WAYS)
def test_whatever_is_answered_a_job_gets_what_is_there_or_a_failure(job: Job, name: str) -> None:
    way, machine = WAYS[name], job.machine

    def check(case: Case) -> None:
        machine.blobs = {**BLOBS, f"{PREFIX}/{KEY}": DATA}
        machine.blocks = {}
        if name == "listing":
            machine.blobs.pop(f"{PREFIX}/{KEY}")
        machine.draw(way.operation, case.answer, case.often)
        found: Any
        try:
            found = way.drive(job)
        except Failure as exc:
            found = exc
        assert machine.served
        assert not any((machine.unknown, job.server.wrong)), (machine.unknown, job.server.wrong)
        judged(way, case, found)

    assert tried(f"azure job: {name}", way.cases(machine), check) >= COUNT


def judged(way: Way, case: Case, found: Any) -> None:
    """Raise AssertionError where a job was told the truth and has it not, or has what is not there."""
    if isinstance(found, Failure):
        assert case.kind != "told", f"it was told the truth, and said {found!r}"
        assert str(found).strip()
        assert not any(word in str(found) for word in ("sig=", TOKEN, SECRET)), str(found)
        return
    silent = way.expected == WHEN and case.kind != "told"
    absent = way.absent if silent or case.status == 404 else ()
    assert found in (way.expected, *absent), f"{found!r} for {way.expected!r}"
