"""Objects of a store as files."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pytest

from runspec_jobs.errors import RemoteError
from runspec_jobs.provider.streams.object_streams import BodyReader, RangedReader

CONTENT = bytes(range(256)) * 40


class Ranges:
    """What is read of CONTENT, and in which ranges."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def read(self, start: int, end: int) -> bytes:
        self.asked.append((start, end))
        return CONTENT[start:end]


@pytest.mark.parametrize(("start", "end"), [(0, None), (0, len(CONTENT)), (7, 4000), (7, None)])
def test_the_bytes_of_a_range_are_read_by_blocks(start: int, end: int | None) -> None:
    ranges = Ranges()

    found = io.BufferedReader(RangedReader(ranges.read, start, end, 4096)).read()

    assert found == CONTENT[start:end]
    assert max(end - start for start, end in ranges.asked) == min(4096, len(found))


def test_an_object_of_unknown_size_is_not_asked_for_again_after_its_end() -> None:
    ranges = Ranges()
    stream = RangedReader(ranges.read)

    assert stream.read(len(CONTENT) + 1) == CONTENT
    assert stream.read(1) == b""
    assert len(ranges.asked) == 1


def test_an_object_of_known_size_can_be_sought_in() -> None:
    stream = RangedReader(Ranges().read, end=len(CONTENT))

    assert stream.seek(-3, io.SEEK_END) == len(CONTENT) - 3
    assert stream.read() == CONTENT[-3:]
    with pytest.raises(io.UnsupportedOperation, match="the size of the object is not known"):
        RangedReader(Ranges().read).seek(0)


def test_errors_of_a_body_are_translated_and_close_it() -> None:
    body = io.BytesIO(CONTENT)

    @contextlib.contextmanager
    def translated() -> Iterator[None]:
        try:
            yield
        except ValueError as exc:
            raise RemoteError("read x: the body is closed") from exc

    with io.BufferedReader(BodyReader(body, translated)) as stream:
        assert stream.read(3) == CONTENT[:3]
    assert body.closed
    with pytest.raises(RemoteError, match="the body is closed"):
        BodyReader(body, translated).read(1)
