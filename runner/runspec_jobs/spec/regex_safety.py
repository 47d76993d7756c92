"""Regular expressions of a spec: which of them can be used, and never take for ever.

Python tries every way of matching, so a repetition of what can itself be matched in several ways, such as `(a+)+`,
takes twice as long for every character more. Those are refused; a line is read up to a limit (`measuring`); what is
left is bounded by the time it may take (`measures`).
"""

from __future__ import annotations

import re
import warnings

from runspec_jobs.spec.types import compiled

PATTERN_CHARACTERS = 500
GROUP = "value"
REPEAT = r"\{(\d*)(,?)(\d*)\}"

Wrong = tuple[str, str | None]


def trouble(text: str) -> Wrong | None:
    """Say what is wrong with *text* as a pattern that finds a value, and what to do; None when nothing is."""
    if len(text) > PATTERN_CHARACTERS:
        return f"{len(text):,} characters are too many, above {PATTERN_CHARACTERS}", None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = re.compile(text)
    except Warning as exc:
        what = f"this will mean something else one day: {str(exc).lower()}"
        return what, "put \\ before a character that stands for itself"
    except (re.error, OverflowError, RecursionError) as exc:
        why = exc.msg if isinstance(exc, re.error) else "it is too large"
        return f"this is no regular expression: {why}", "single quotes keep its backslashes"
    if found.flags & re.VERBOSE:
        return "(?x) cannot be read here", "take it away"
    if found.groups != 1 and GROUP not in found.groupindex:
        what = "no group" if not found.groups else f"{found.groups} groups"
        return f"it has {what}", f"put what is the value in ( ), or in (?P<{GROUP}> )"
    if _ambiguous(text):
        return "it repeats what repeats, which can take for ever", "repeat a class: [0-9.]+"
    return None


def _ambiguous(text: str) -> bool:
    """Say whether a group is repeated that can be matched in several ways. *text* has been compiled.

    >>> [_ambiguous(t) for t in (r"(a+)+", r"(a|ab)*", r"(?:\\d\\d:){3}", r"loss=([0-9.]+)(?: s)?")]
    [True, True, False, False]
    """
    several = [False]  # of each group that is open, whether it can be matched in several ways
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
            last, at = False, _after(text, at)
    return False


def _repeat(text: str, at: int) -> tuple[float, float, int] | None:
    """Give how often the repetition at *at* repeats, at least and at most, and where it ends."""
    many: dict[str, tuple[float, float]] = {"*": (0, 2**32), "+": (1, 2**32), "?": (0, 1)}
    match = compiled(REPEAT).match(text, at)
    if text[at] in many:
        (least, most), end = many[text[at]], at + 1
    elif match and match[0] != "{}":
        least = float(match[1] or 0)
        most, end = float(match[3] or 2**32) if match[2] else least, match.end()
    else:
        return None
    return least, most, end + (text[end : end + 1] in ("?", "+"))


def _after(text: str, at: int) -> int:
    """Give where the character or the class at *at* ends."""
    if text[at] == "\\":
        return at + 2
    if text[at] != "[":
        return at + 1
    at += 2 if text[at + 1] == "^" else 1
    at += 1 if text[at] == "]" else 0
    while text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1
