"""The container of the profile, over Azurite: what is said where it is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runspec.provider import RemoteError
from runspec_azure.blobs import Blobs
from runspec_rehearsal.azure.blob import Blobs as Azurite
from tests.needs import need

pytestmark = pytest.mark.slow

ASKED: dict[str, Callable[[Blobs], Any]] = {
    "put": lambda blobs: blobs.put("x/a", b"1"),
    "put_new": lambda blobs: blobs.put_new(b"1", "a"),
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
    monkeypatch.setenv("KEY", account.key)
    options = SimpleNamespace(
        prefix="x",
        storage_account=account.account,
        storage_key="env:KEY",
        container="nowhere",
        blob_url=account.url,
    )
    session: Any = SimpleNamespace(options=options)
    return Blobs(session)


@pytest.mark.parametrize("what", ASKED)
def test_a_container_that_is_not_there_is_named(what: str, blobs: Blobs) -> None:
    with pytest.raises(
        RemoteError, match="there is no container nowhere in the account rehearsal"
    ) as told:
        ASKED[what](blobs)

    assert told.value.hint and "container" in told.value.hint
    assert not told.value.transient


def test_nothing_is_read_of_a_container_that_is_not_there(blobs: Blobs) -> None:
    assert (blobs.read("a"), blobs.size("x/a")) == (None, None)
    blobs.remove("x/a")
