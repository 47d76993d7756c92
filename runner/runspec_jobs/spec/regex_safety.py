"""Decides which regular expressions a spec may use, so that no search takes exponential time.

Python tries every way to match, so the repetition of a group that can itself match in several ways, such as `(a+)+`,
takes twice as long with each further character. Such patterns are refused. `report.metric_extraction` limits the
length of the lines that are searched, and `logs.measure` limits the time of a search.
"""

from __future__ import annotations

import re
import warnings

from runspec_jobs.spec.types import compiled

PATTERN_CHARACTERS = 500
GROUP = "value"
REPEAT = r"\{(\d*)(,?)(\d*)\}"

Wrong = tuple[str, str | None]


def find_trouble(text: str) -> Wrong | None:
    """Return a message and a hint if *text* cannot be the pattern of a metric, or None if it can."""
    if len(text) > PATTERN_CHARACTERS:
        return (
            f"the pattern has {len(text):,} characters; at most {PATTERN_CHARACTERS} are allowed",
            None,
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pattern = re.compile(text)
    except Warning as exc:
        message = f"a later version of Python will read this differently: {str(exc).lower()}"
        return message, "write \\ before a character that is meant literally"
    except (re.error, OverflowError, RecursionError) as exc:
        why = exc.msg if isinstance(exc, re.error) else "it is too large"
        return (
            f"this is not a regular expression: {why}",
            "write it in single quotes, which keep backslashes",
        )
    # White space would mean something else to `_repeat` and `_skip_character`.
    if pattern.flags & re.VERBOSE:
        return "(?x) is not supported", "remove it"
    if pattern.groups != 1 and GROUP not in pattern.groupindex:
        message = "no group" if not pattern.groups else f"{pattern.groups} groups"
        return f"the pattern has {message}", f"put the value in ( ), or in (?P<{GROUP}> )"
    if is_ambiguous(text):
        return (
            "a repeated group that itself repeats can take exponential time",
            "repeat a class: [0-9.]+",
        )
    return None


def is_ambiguous(text: str) -> bool:
    """Return whether *text*, a valid pattern, repeats a group that can match in several ways.

    >>> [is_ambiguous(t) for t in (r"(a+)+", r"(a|ab)*", r"(?:\\d\\d:){3}", r"loss=([0-9.]+)(?: s)?")]
    [True, True, False, False]
    """
    several = [False]  # for each open group, whether it can match in several ways
    last, at = False, 0
    while at < len(text):
        if text[at] == "(":
            several.append(False)
            at += 2 if text[at + 1 : at + 2] == "?" else 1
            last = False
        elif text[at] == ")":
            last = several.pop()
            several[-1] |= last
            at += 1
        elif text[at] == "|":
            several[-1], last = True, False
            at += 1
        elif repeat := _repeat(text, at):
            least, most, at = repeat
            if last and most > 1:
                return True
            several[-1] |= least != most
        else:
            last, at = False, _skip_character(text, at)
    return False


def count_unlimited_repetitions(text: str) -> int:
    """Return how many repetitions of *text*, a valid pattern, have no limit, or one above 100.

    A search takes time that grows with a line's length to the power of this number, plus one.

    >>> [count_unlimited_repetitions(t) for t in (r"a.*b+", r"[*+]{2,}", r"x{3}y?\\*", r"(?:a{0,200})*")]
    [2, 1, 0, 2]
    """
    count, at = 0, 0
    while at < len(text):
        if text[at] == "(":
            at += 2 if text[at + 1 : at + 2] == "?" else 1
        elif repeat := _repeat(text, at):
            count += repeat[1] > 100
            at = repeat[2]
        else:
            at = _skip_character(text, at)
    return count


def _repeat(text: str, at: int) -> tuple[float, float, int] | None:
    """Return the least and greatest count of the repetition at *at* and the index after it, or None."""
    many: dict[str, tuple[float, float]] = {"*": (0, 2**32), "+": (1, 2**32), "?": (0, 1)}
    match = compiled(REPEAT).match(text, at)
    if text[at] in many:
        (least, most), end = many[text[at]], at + 1
    elif match and match[0] != "{}":
        least = float(match[1] or 0)
        most, end = float(match[3] or 2**32) if match[2] else least, match.end()
    else:
        return None
    # A lazy or possessive repetition, as in `a+?` and `a++`.
    return least, most, end + (text[end : end + 1] in ("?", "+"))


def _skip_character(text: str, at: int) -> int:
    """Return the index after the character or the character class at *at*."""
    if text[at] == "\\":
        return at + 2
    if text[at] != "[":
        return at + 1
    at += 2 if text[at + 1] == "^" else 1
    # In `[]a]`, the first bracket is a member of the class.
    at += 1 if text[at] == "]" else 0
    while text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1
