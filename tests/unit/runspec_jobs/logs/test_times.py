"""The times of lines, from the times of the parts of a log."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, strategies as st

from runspec_jobs.logs.follow import Reader
from runspec_jobs.provider.streams.log_streams import Chunk, Stream, TimedChunk


@dataclass
class Log:
    """A log of which each chunk has a number of bytes; *times* are pairs of a length and a time."""

    data: bytes
    times: list[tuple[int, float]]
    sizes: list[int]
    task: int = 0
    rank: int = 0

    def read(self, position: str | None) -> Chunk:
        start, number = map(int, (position or "0 0").split())
        size = self.sizes[number % len(self.sizes)]
        data = self.data[start : start + size]
        return Chunk(data, f"{start + len(data)} {number + 1}")

    def timed(self, stream: Stream, position: str | None) -> TimedChunk:
        start, chunk = int((position or "0").split()[0]), self.read(position)
        end = start + len(chunk.data)
        within = [(size - start, at) for size, at in self.times if start < size <= end]
        later = [(len(chunk.data), at) for size, at in self.times if size > end][:1]
        return TimedChunk(chunk, [*within, *later])


@given(
    st.lists(st.binary(max_size=5).map(lambda b: b.replace(b"\n", b"x")), max_size=12),
    st.lists(st.integers(1, 12), max_size=8),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_each_line_has_the_first_time_at_which_all_of_it_was_there(
    texts: list[bytes], steps: list[int], sizes: list[int]
) -> None:
    data = b"".join(text + b"\n" for text in texts)
    lengths = [sum(steps[: n + 1]) for n in range(len(steps))]
    times = [(length, float(n)) for n, length in enumerate(lengths)]
    log = Log(data, times, sizes)
    reader = Reader(log, log.timed)

    found = list(reader.read_lines())

    assert [line.text for line in found] == texts
    ends = [sum(len(text) + 1 for text in texts[: n + 1]) for n in range(len(texts))]
    expected = [next((at for length, at in times if length >= end), None) for end in ends]
    assert [line.at for line in found] == expected


def test_without_a_timer_no_line_has_a_time() -> None:
    log = Log(b"a\nb\n", [(4, 1.0)], [100])

    assert [line.at for line in Reader(log).read_lines()] == [None, None]
