"""Which lines of a log are shown: the last ones, and those that an expression matches."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.errors import UsageError
from runspec_jobs.logs.follow import Line
from runspec_jobs.logs.select import ALL, Selection, Selector

SLOW = r"(x*x*)*y"


def lines(*texts: str, rank: int = 0) -> list[Line]:
    return [Line(0, rank, text.encode()) for text in texts]


def chosen(selection: Selection, before: list[Line], after: list[Line] = []) -> list[str]:  # noqa: B006 - never changed
    found: list[Line] = []
    with Selector(selection, found.append) as selector:
        for line in before:
            selector.take_line(line)
        selector.catch_up()
        for line in after:
            selector.take_line(line)
        selector.catch_up()
    return [line.text.decode() for line in found]


@given(
    st.lists(st.sampled_from(["a1", "b2", "a3"])),
    st.lists(st.sampled_from(["a4", "b5"])),
    st.none() | st.integers(0, 5),
    st.sampled_from([None, "a", r"[0-9]$", "^$"]),
)
def test_the_last_lines_that_match_and_all_later_ones_that_do(
    before: list[str], after: list[str], tail: int | None, grep: str | None
) -> None:
    def matches(text: str) -> bool:
        return grep in (None, r"[0-9]$") or (grep == "a" and "a" in text)

    old, new = [t for t in before if matches(t)], [t for t in after if matches(t)]
    kept = old if tail is None else old[len(old) - min(tail, len(old)) :]

    assert chosen(Selection(tail, grep), lines(*before), lines(*after)) == kept + new


def test_each_node_has_its_last_lines() -> None:
    before = lines("a", "b") + lines("c", "d", rank=1) + lines("e")

    assert chosen(Selection(tail=1), before) == ["e", "d"]


def test_a_line_of_several_parts_is_chosen_by_the_first_one() -> None:
    parts = [Line(0, 0, b"a", ended=False), Line(0, 0, b"b", continues=True)]
    more = lines("c")

    assert chosen(Selection(grep="a"), parts + more) == ["a", "b"]
    assert chosen(Selection(grep="b"), parts + more) == []
    assert chosen(Selection(tail=1), more + parts) == ["a", "b"]
    assert chosen(Selection(tail=0), parts[:1], parts[1:] + more) == ["c"]
    assert chosen(Selection(tail=1), parts[:1], parts[1:] + more) == ["a", "b", "c"]


def test_of_an_endless_line_the_last_parts_are_kept() -> None:
    first = Line(0, 0, b"0", ended=False)
    rest = [Line(0, 0, str(n).encode(), continues=True, ended=False) for n in range(1, 100)]

    assert chosen(Selection(tail=1), [first, *rest]) == [str(n) for n in range(84, 100)]
    assert chosen(Selection(tail=1), [first, *rest[:15]]) == [str(n) for n in range(16)]


def test_the_text_that_is_searched_is_the_one_that_is_shown() -> None:
    raw = [Line(0, 0, b"0%\r\x1b[31mloss\x1b[0m=1\r")]

    assert chosen(Selection(grep="^loss=1$"), raw) != []
    assert chosen(Selection(grep="0%"), raw) == []


def test_a_line_that_has_not_ended_is_shown_if_it_would_be_chosen() -> None:
    seen: list[Line] = []
    with Selector(Selection(tail=1, grep="a"), lambda line: None, seen.append) as selector:
        selector.take_unfinished(Line(0, 0, b"a", ended=False))
        assert seen == [], "the earlier lines were not shown"
        selector.catch_up()
        selector.take_unfinished(Line(0, 0, b"b", ended=False))
        selector.take_unfinished(Line(0, 0, b"ab", ended=False))

    assert [line.text for line in seen] == [b"ab"]


def test_an_expression_that_takes_too_long_is_ended() -> None:
    began = time.process_time()

    with pytest.raises(UsageError, match="--grep took more than 2 s"):
        chosen(Selection(grep=SLOW), lines("x" * 10_000))

    assert time.process_time() - began < 6


@pytest.mark.parametrize(
    ("grep", "why"),
    [
        (SLOW, "can take exponential time"),
        ("a*a*b", "has several unlimited repetitions, which can take very long"),
    ],
)
def test_in_a_thread_where_it_could_not_be_ended_it_is_refused(grep: str, why: str) -> None:
    raised, _ = in_a_thread(grep, "x" * 10_000)

    assert [exc.message for exc in raised] == [f"--grep: '{grep}' {why}"]
    assert chosen(ALL, lines("a")) == ["a"]


def test_in_a_thread_the_beginning_of_a_line_is_searched() -> None:
    """A single repetition takes time that grows with the square of the length."""
    _, found = in_a_thread("x*y", "x" * 9_000 + "y" + "x" * 200_000, "x" * 200_000 + "y")

    assert [len(text) for text in found] == [209_001]


def in_a_thread(grep: str, *texts: str) -> tuple[list[UsageError], list[str]]:
    """Return the errors and the chosen lines of a search in another thread than the main one."""
    raised: list[UsageError] = []
    found: list[str] = []

    def search() -> None:
        try:
            found.extend(chosen(Selection(grep=grep), lines(*texts)))
        except UsageError as exc:
            raised.append(exc)

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    return raised, found


@pytest.mark.parametrize(
    ("tail", "grep", "what"),
    [
        (-1, None, "--tail: -1 is negative"),
        (10**20, None, f"--tail: {10**20} is more than 10,000,000"),
        (
            None,
            "(a",
            "--grep: '(a' is not a regular expression: missing ), unterminated subpattern",
        ),
        (None, "*", "--grep: '*' is not a regular expression: nothing to repeat"),
        (
            None,
            "a{99999999999}",
            "--grep: 'a{99999999999}' is not a regular expression: it is too large",
        ),
    ],
)
def test_a_wrong_tail_or_expression_is_refused(
    tail: int | None, grep: str | None, what: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Selection(tail, grep)

    assert (caught.value.message, caught.value.exit_code) == (what, 2)


def test_lines_that_are_too_old_are_left_out_and_those_without_a_time_are_new() -> None:
    before = [Line(0, 0, b"a", at=9.9), Line(0, 0, b"b", at=10.0), Line(0, 0, b"c", at=11.0)]
    parts = [Line(0, 1, b"d", ended=False, at=9.0), Line(0, 1, b"e", continues=True, at=12.0)]

    assert chosen(Selection(since_s=10.0), [*before, *parts], lines("f")) == ["b", "c", "f"]
    assert chosen(Selection(since_s=10.0, tail=1), [*before, *parts]) == ["c"]
    assert Selection(since_s=10.0).needs_times
    assert Selection(timed=True).is_all
