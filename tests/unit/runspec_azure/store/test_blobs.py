"""The container of the profile, over Azurite: what nodes keep there, and what is said where it is not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_azure.batch.status import Tasks
from runspec_azure.store import Blobs
from runspec_emulators.azure_services.blob import Blobs as Azurite
from runspec_jobs.provider import RemoteError
from tests.support.change_records import at, record
from tests.support.requirements import need

pytestmark = pytest.mark.slow

ASKED: dict[str, Callable[[Blobs], Any]] = {
    "put": lambda blobs: blobs.put("x/a", b"1"),
    "put_new": lambda blobs: blobs.put_new("x/a", b"1"),
    "put_blocks": lambda blobs: blobs.put_blocks("x/a", iter([b"1"] * 3), 3),
    "listing": lambda blobs: list(blobs.listing("x/")),
    "folders": lambda blobs: blobs.folders("x/"),
    "empty": lambda blobs: blobs.empty("x/"),
}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    need("azurite")
    with Azurite(tmp_path_factory.mktemp("blobs")) as found:
        yield found


@pytest.fixture
def blobs(account: Azurite, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    """Give a container that nobody has made."""
    return opened(account, "nowhere", monkeypatch)


def opened(account: Azurite, container: str, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    monkeypatch.setenv("KEY", account.key)
    options = SimpleNamespace(
        prefix="x",
        storage_account=account.account,
        storage_key="env:KEY",
        container=container,
        blob_url=account.url,
    )
    session: Any = SimpleNamespace(options=options)
    return Blobs(session)


@pytest.fixture
def there(account: Azurite, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    """Give a container that is there."""
    account.make_container("jobs")
    return opened(account, "jobs", monkeypatch)


def test_changes_are_read_as_the_nodes_wrote_them_down(there: Blobs) -> None:
    """A list for each task and a get for each change, of which several go at once."""
    of = {"nodes": 1, "elastic": {"min": 1, "max": 3}, "sweep": [["lr", ["1", "2"]]]}
    there.put("x/runs/r/record.json", json.dumps(of).encode())
    there.put("x/runs/r/elastic/0/state", b"{}")
    for n in range(1, 21):
        there.put(f"x/runs/r/{at(n)}", record(n))
    there.put(f"x/runs/r/{at(1, 1)}", record(1, gap_s=None))
    session: Any = SimpleNamespace()

    found = Tasks(session, there).kept.changes("r")

    assert [(one.task, one.generation) for one in found] == [
        *((0, n) for n in range(1, 21)),
        (1, 1),
    ]
    assert (found[3].gap_s, found[3].lost_steps, found[20].gap_s) == (1.5, 3, None)


@pytest.mark.parametrize("what", ASKED)
def test_a_container_that_is_not_there_is_named(what: str, blobs: Blobs) -> None:
    with pytest.raises(
        RemoteError, match="there is no container nowhere in the account rehearsal"
    ) as told:
        ASKED[what](blobs)

    assert told.value.hint and "container" in told.value.hint
    assert not told.value.transient


def test_reading_from_a_missing_container_returns_none(blobs: Blobs) -> None:
    assert (blobs.read("x/a"), blobs.size("x/a")) == (None, None)
    blobs.remove(["x/a"])
