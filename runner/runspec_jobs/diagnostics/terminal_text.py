"""Removes what text of a job could do to a terminal, except for changing colours."""

from __future__ import annotations

from runspec_jobs.diagnostics.render import count_columns, escape_control
from runspec_jobs.regex import regex

RESET = "\x1b[0m"
# Of prefixes, by number: no black, white or red, which programs use for text and for errors.
PREFIXES = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
# Control sequences, after ECMA-48 (https://ecma-international.org/publications-and-standards/standards/ecma-48/):
# SGR, which sets colours and weights (a private one, such as `ESC [ > 4 m`, does other things); all other CSI
# sequences; strings, such as titles and the clipboard, up to their end; and escapes of one or more characters.
SEQUENCE = regex(
    r"(\x1b\[[0-9;:]{0,64}m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b(?:[ -/]+[0-~]|[6-9=>DEHMNOZ\\c])"
)
SILENT = {ord("\a"): None, ord("\b"): None}  # they print nothing, and a file needs no bell
# The parameters of SGR by the attribute that they set, and the one that resets the attribute.
# https://learn.microsoft.com/windows/console/console-virtual-terminal-sequences#text-formatting
ATTRIBUTES: tuple[tuple[range | tuple[int, ...], int], ...] = (
    ((*range(30, 39), *range(90, 98)), 39),
    ((*range(40, 49), *range(100, 108)), 49),
    ((1, 2), 22),
    ((3, 20), 23),
    ((4, 21), 24),
    ((5, 6), 25),
    ((7,), 27),
    ((8,), 28),
    ((9,), 29),
    ((53,), 55),
    ((58,), 59),
)
RESETS = {number: off for numbers, off in ATTRIBUTES for number in (*numbers, off)}
EXTENDED = {38, 48, 58}  # colours with parameters of their own: `38;5;N` and `38;2;R;G;B`


def tint(text: str, number: int) -> str:
    """Return *text* in a colour for *number*, always the same.

    >>> tint("[node 1]", 1)
    '\\x1b[33m[node 1]\\x1b[0m'
    """
    return f"\x1b[{PREFIXES[number % len(PREFIXES)]}m{text}{RESET}"


def strip_sequences(text: str, *, colours: bool = False) -> str:
    """Return *text* without control sequences; other control characters are escaped. With *colours*, SGR is kept.

    >>> strip_sequences("\\x1b]0;title\\a\\x1b[31mred\\x1b[0m \\x1b[2J\\x00")
    'red \\\\x00'
    """
    if text.isprintable():
        return text
    parts, end = [], 0
    for match in SEQUENCE.finditer(text):
        parts.append(_escape_character(text[end : match.start()]))
        if colours and match[1]:
            parts.append(match[1])
        end = match.end()
    return "".join(parts) + _escape_character(text[end:])


def _escape_character(text: str) -> str:
    return text if text.isprintable() else escape_control(text.translate(SILENT))


class Colours:
    """Keeps the colours of a stream that is shown in parts: each part begins with them, and ends with none."""

    def __init__(self) -> None:
        self._set: dict[
            int, str
        ] = {}  # the sequence of each attribute, by the parameter that resets it

    def show(self, text: str) -> str:
        """Return *text* with control sequences removed except for SGR; the next text continues in its colours."""
        if not self._set and "\x1b" not in text:
            return _escape_character(text)
        # Other streams may print between two parts, and their text must not get these colours.
        before = "".join(self._set.values())
        clean = strip_sequences(text, colours=True)
        for match in SEQUENCE.finditer(clean):
            self._take(match[0][2:-1])
        return f"{before}{clean}{RESET}" if before or "\x1b" in clean else clean

    def show_once(self, text: str) -> str:
        """Return what `show` returns, for text that will be shown again: the next text does not continue it."""
        kept = dict(self._set)
        shown = self.show(text)
        self._set = kept
        return shown

    def _take(self, parameters: str) -> None:
        left = parameters.split(";")
        while left:
            parameter = left.pop(0)
            number = int(parameter.partition(":")[0] or 0)
            if number in EXTENDED and ":" not in parameter:
                # `38;5;N` is a colour of the palette and `38;2;R;G;B` one of 16 million: their numbers are no
                # parameters of their own.
                more = {"5": 2, "2": 4}.get(left[0], 0) if left else 0
                parameter, left = ";".join((parameter, *left[:more])), left[more:]
            if number == 0:
                self._set.clear()
            elif number in RESETS:
                self._set.pop(RESETS[number], None)
                # A parameter that resets an attribute leaves nothing to repeat.
                if RESETS[number] != number:
                    self._set[RESETS[number]] = f"\x1b[{parameter}m"


def clip(text: str, width: int) -> str:
    """Return the beginning of *text*, which `Colours` has returned, that takes at most *width* terminal columns.

    >>> clip("\\x1b[31mabc\\x1b[0m", 2)
    '\\x1b[31mab\\x1b[0m'
    """
    parts, end, left = [], 0, width
    for match in SEQUENCE.finditer(text):
        parts.append(_take_columns(text[end : match.start()], left))
        left -= count_columns(parts[-1])
        parts.append(match[0])
        end = match.end()
    return "".join(parts) + _take_columns(text[end:], left)


def _take_columns(text: str, width: int) -> str:
    head = text[: max(0, width)]
    # By columns, not by characters: a Chinese character takes two, an accent none.
    while count_columns(head) > width:
        head = head[:-1]
    return head
