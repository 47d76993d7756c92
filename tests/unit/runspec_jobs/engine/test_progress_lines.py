"""A caller in Python gets the current text of a progress bar, and all of it when it has ended."""

from __future__ import annotations

from runspec_jobs.engine.log_lines import Joined, LogLine
from runspec_jobs.logs.follow import Line


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def redrawn(text: bytes, rank: int = 0) -> Line:
    return Line(0, rank, text, ended=False)


def test_the_first_text_of_a_bar_comes_at_once_and_others_once_a_second() -> None:
    shown: list[LogLine] = []
    joined = Joined(shown.append, clock := Clock())

    for tenth in range(25):
        clock.now = tenth / 10
        joined.take_unfinished(redrawn(b"\r%d %%" % tenth))

    assert [line.text for line in shown] == ["0 %", "10 %", "20 %"]
    assert not any(line.ended for line in shown)


def test_bars_of_two_nodes_do_not_hide_each_other() -> None:
    shown: list[LogLine] = []
    joined = Joined(shown.append, Clock())

    joined.take_unfinished(redrawn(b"\ra"))
    joined.take_unfinished(redrawn(b"\rb", rank=1))

    assert [(line.node, line.text) for line in shown] == [(0, "a"), (1, "b")]


def test_all_of_the_line_comes_when_it_has_ended() -> None:
    shown: list[LogLine] = []
    joined = Joined(shown.append, Clock())

    joined.take_unfinished(redrawn(b"\r 50 %"))
    joined(Line(0, 0, b"\r 50 %\r100 %"))

    assert shown == [LogLine(0, 0, " 50 %", ended=False), LogLine(0, 0, "100 %")]


def test_a_prompt_without_a_line_end_is_no_progress() -> None:
    shown: list[LogLine] = []
    joined = Joined(shown.append, Clock())

    joined.take_unfinished(redrawn(b"half a line"))
    joined.flush()

    assert shown == []
