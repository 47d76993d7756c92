"""A stream that breaks off is taken up, wherever that is."""

from __future__ import annotations

import io
from email.message import Message
from typing import Any

import pytest

from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.store.ranged_read import TRIES, RangedReader

CONTENT = bytes(range(256)) * 8


class Reply(io.BytesIO):
    """What a store answers: *content* of which only *comes* bytes come."""

    def __init__(self, content: bytes, headers: dict[str, str], comes: int) -> None:
        super().__init__(content[:comes])
        self.headers = Message()
        for name, value in {"Content-Length": str(len(content)), "ETag": '"1"', **headers}.items():
            self.headers[name] = value


class Store:
    """Answers with *comes* bytes at a time; the last of these for ever."""

    def __init__(self, *comes: int, ranges: bool = True) -> None:
        self.comes, self.ranges = list(comes), ranges
        self.asked: list[dict[str, str]] = []

    def ask(self, headers: dict[str, str]) -> Any:
        self.asked.append(headers)
        start = int(headers.get("Range", "bytes=0-").partition("=")[2].partition("-")[0])
        comes = self.comes.pop(0) if len(self.comes) > 1 else self.comes[0]
        whole = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        more = {"Content-Range": whole} if start and self.ranges else {}
        return Reply(CONTENT[start:] if self.ranges else CONTENT, more, comes)


@pytest.fixture
def body(pauses: list[float]) -> Any:
    return lambda store: RangedReader("k", store.ask)


def whole(body: RangedReader, size: int) -> bytes:
    found = b""
    while block := body.read(size):
        found += block
    return found


@pytest.mark.parametrize("comes", [1, 2, 511, 512, 513, 1024, len(CONTENT) - 1, len(CONTENT)])
@pytest.mark.parametrize("size", [1, 100, 512, 10_000])
def test_every_byte_of_an_object_is_read_once(body: Any, comes: int, size: int) -> None:
    store = Store(comes)

    assert whole(body(store), size) == CONTENT
    assert [h.get("If-Match") for h in store.asked[1:]] == ['"1"'] * (len(store.asked) - 1)


def test_a_store_that_gives_nothing_more_is_left(body: Any, pauses: list[float]) -> None:
    store = Store(1000, 0)

    with pytest.raises(
        Failure, match="k was received only in part: 1048 bytes are missing"
    ) as failure:
        whole(body(store), 512)

    assert failure.value.code == LOST
    assert len(store.asked) == TRIES
    assert pauses == [0.25 * 2**n for n in range(1, TRIES)]


def test_a_store_that_begins_anew_is_not_believed(body: Any) -> None:
    with pytest.raises(
        Failure, match="bytes=1000-2047 was requested, but the store sent all of it"
    ):
        whole(body(Store(1000, ranges=False)), 512)
