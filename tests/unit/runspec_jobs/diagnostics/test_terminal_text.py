"""What a job prints does nothing to a terminal but change the colours of its own text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.diagnostics.terminal_text import RESET, Colours, clip, strip_sequences

SGR = re.compile(r"\x1b\[[0-9;:]*m")
PIECES = [
    *(
        "\x1b",
        "\x9b",
        "\x9d",
        "\x90",
        "[",
        "]",
        "P",
        "X",
        "^",
        "_",
        "\\",
        "\a",
        "\b",
        "\0",
        "\x7f",
        "\r",
        "\v",
    ),
    *(
        "0",
        "31",
        "38;5;",
        "48;2;1;",
        ";",
        ":",
        "?",
        ">",
        "m",
        "c",
        "J",
        "K",
        "H",
        " ",
        "(",
        "$",
        "!",
        "~",
    ),
    *(
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[",
        "\x1b]52;c;",
        "\x1b\\",
        "\u202e",
        "\u2028",
        "text",
        "日本",
        "e\u0301",
    ),
]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.text())


def harmless(text: str) -> bool:
    """Return whether *text* has nothing but printable characters and SGR."""
    return SGR.sub("", text).isprintable()


@given(TEXTS)
def test_without_colours_no_control_character_is_left(text: str) -> None:
    assert strip_sequences(text).isprintable()


@given(TEXTS)
def test_with_colours_only_sgr_is_left(text: str) -> None:
    assert harmless(strip_sequences(text, colours=True))


@given(st.lists(TEXTS, max_size=5), st.integers(0, 30))
def test_no_part_of_a_stream_leaves_a_colour_behind(texts: list[str], width: int) -> None:
    colours = Colours()

    for text in texts:
        for shown in (colours.show_once(text), colours.show(text)):
            for cut in (shown, clip(shown, width)):
                assert harmless(cut)
                assert "\x1b" not in cut or cut.endswith(RESET)


@given(TEXTS)
def test_text_without_escapes_stays(text: str) -> None:
    """A terminal shows the text, whatever surrounds it."""
    words = f"{text}\x1b\\ and then "

    assert Colours().show(words).removesuffix(RESET).endswith(" and then ")


@pytest.mark.parametrize(
    ("sequence", "what"),
    [
        ("\x1b]0;title\a", "a title"),
        ("\x1b]52;c;cm0gLXJmIH4=\x1b\\", "the clipboard"),
        ("\x1b]8;;https://host\x1b\\", "a link"),
        ("\x1bP$q\x1b\\", "a device control string"),
        ("\x1b_Ga=T\x1b\\", "an application command"),
        ("\x1b[2J", "erase"),
        ("\x1b[1;1H", "move"),
        ("\x1b[6n", "a report"),
        ("\x1b[?1049h", "the other screen"),
        ("\x1b[>4;2m", "the keyboard"),
        ("\x1b[?4m", "the keyboard, asked"),
        ("\x1b[1 m", "no SGR, because of the space"),
        ("\x1b[1;1;1;1;1$r", "a rectangle"),
        ("\x1bc", "a reset of the terminal"),
        ("\x1b7", "the cursor"),
        ("\x1b(0", "a character set"),
        ("\x1b#8", "a test pattern"),
        ("\a" * 1000, "bells"),
        ("\b" * 10, "backspaces"),
    ],
)
def test_other_sequences_are_left_out(sequence: str, what: str) -> None:
    assert strip_sequences(f"a{sequence}b", colours=True) == "ab", what


@pytest.mark.parametrize("begun", ["\x1b[31", "\x1b]0;title", "\x1bP", "\x9b31m", "\x1b"])
def test_incomplete_control_sequences_are_shown_as_text(begun: str) -> None:
    """Text after a string that never ends is not swallowed."""
    shown = strip_sequences(begun, colours=True)

    assert shown == begun.replace("\x1b", "\\x1b").replace("\x9b", "\\x9b")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("\x1b[31mx", "\x1b[31my\x1b[0m"),
        ("\x1b[1;38;5;196mx", "\x1b[1m\x1b[38;5;196my\x1b[0m"),
        ("\x1b[38;2;1;0;3mx", "\x1b[38;2;1;0;3my\x1b[0m"),
        ("\x1b[38:2::1:0:3mx", "\x1b[38:2::1:0:3my\x1b[0m"),
        ("\x1b[31m\x1b[32mx", "\x1b[32my\x1b[0m"),
        ("\x1b[31mx\x1b[39m", "y"),
        ("\x1b[31mx\x1b[m", "y"),
        ("\x1b[31mx\x1b[0;4m", "\x1b[4my\x1b[0m"),
        ("\x1b[1mx\x1b[22m", "y"),
    ],
)
def test_the_next_part_goes_on_in_the_same_colours(first: str, second: str) -> None:
    colours = Colours()

    colours.show(first)

    assert colours.show("y") == second


def test_sequences_of_any_length_take_no_long_time() -> None:
    """Each of these would take minutes if the time grew with the square of the length."""
    for text in ("\x1b]" * 500_000, "\x1b[" * 500_000, "\x1b[1;" * 300_000, "\x1b " * 500_000):
        assert strip_sequences(text, colours=True).isprintable()
    assert "\x1b" not in strip_sequences("\x1b[" + "1;" * 500_000 + "m", colours=True)
    colours = Colours()
    colours.show("".join(f"\x1b[38;5;{number % 256}m" for number in range(100_000)))
    assert len(colours.show("")) < 200
