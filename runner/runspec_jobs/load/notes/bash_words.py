"""Finds what only bash and some other shells know in a script that /bin/sh reads. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.regex import regex

BEGIN = r"(?:^|[;&|({]|(?:^|[\s;])(?:if|then|while|until|else|elif|do|!))[ \t]*"  # of a command
# Each name with what it matches in a script without quoted text, comments and here-documents.
COMMANDS = (
    ("[[", rf"{BEGIN}\[\[\s"),
    ("((", rf"(?:{BEGIN}|(?:^|\s)for[ \t]+)\(\([^()\n]*\)\)"),
    ("function", rf"{BEGIN}function[ \t]+[\w-]+"),
    ("source", rf"{BEGIN}source[ \t]+[\w./~$Q]"),
    ("declare", rf"{BEGIN}(?:declare|typeset)[ \t]+[-\w]"),
    ("shopt", rf"{BEGIN}shopt[ \t]+-"),
    ("mapfile", rf"{BEGIN}(?:mapfile|readarray)[ \t]"),
    ("pushd", rf"{BEGIN}(?:pushd|popd)\b"),
    ("an array", r"(?:^|[\s;])[A-Za-z_]\w*\+?=\("),
    ("<(", r"(?:^|\s)<\((?!\()"),
    (">(", r"(?:^|\s)>\((?!\()"),
    ("<<<", r"<<<"),
    ("&>", r"(?:^|\s)&>>?[ \t]*[\w./$Q]"),
    ("|&", r"\|&"),
    ("{1..9}", r"(?<![$\w])\{(?:-?\d+|[A-Za-z])\.\.(?:-?\d+|[A-Za-z])(?:\.\.-?\d+)?\}"),
    ("set -o pipefail", rf"{BEGIN}set[ \t]+(?:-\w+[ \t]+)*-\w*o[ \t]+pipefail"),
    ("== in [ ]", rf"{BEGIN}\[[ \t][^\]\n]*[ \t]==[ \t]"),
)
# What double quotes do not hide.
EXPANSIONS = (
    ("$RANDOM", r"\$\{?RANDOM\b(?![:\-+])"),
    ("$BASH_SOURCE", r"\$\{?BASH_SOURCE\b"),
    ("$PIPESTATUS", r"\$\{?PIPESTATUS\b"),
    ("${a[i]}", r"\$\{[#!]?[A-Za-z_]\w*\["),
    ("${a//b/c}", r"\$\{[A-Za-z_]\w*/"),
    ("${a^^}", r"\$\{[A-Za-z_]\w*(?:\^\^?|,,?)\}"),
    ("${a:0:1}", r"\$\{[A-Za-z_]\w*:\d"),
)
HEREDOC = regex(r"<<(-?)[ \t]*(\\?)(['\"]?)([A-Za-z_]\w*)\3")


def find_bash_words(script: str) -> list[tuple[int, str]]:
    """Return the line, from 1, and the name of each thing in *script* that /bin/sh may not know, each name once.

    >>> find_bash_words("echo '[['  # source x\\nif [[ a == b ]]; then x=(1 2); fi")
    [(2, '[['), (2, 'an array')]
    """
    bare, expanded = strip_quoted(script), strip_quoted(script, double=False)
    lines: dict[str, int] = {}
    for names, text in ((COMMANDS, bare), (EXPANSIONS, expanded)):
        for name, pattern in names:
            if match := re.search(pattern, text, re.MULTILINE):
                at = match.start() + len(match[0]) - len(match[0].lstrip())
                lines[name] = text.count("\n", 0, at) + 1
    if re.search(r"\bRANDOM=", bare):
        lines.pop("$RANDOM", None)
    return sorted((line, name) for name, line in lines.items())


def strip_quoted(script: str, *, double: bool = True) -> str:
    """Return *script* without comments, here-documents and escaped characters, with `Q` for each quoted text.

    Without *double*, text in double quotes stays. Lines keep their numbers.
    """
    return "".join(_Pieces(script, double))


class _Pieces:
    """The pieces of a script that are no quoted text, comment or here-document."""

    def __init__(self, script: str, double: bool) -> None:
        self.script, self.double, self.at = script, double, 0
        self.bodies: list[tuple[str, bool]] = []  # the ends of the here-documents of this line
        self.within = False  # double quotes, which stay

    def __iter__(self) -> Iterator[str]:
        while self.at < len(self.script):
            yield self._read_next()

    def _read_next(self) -> str:
        script, at = self.script, self.at
        letter = script[at]
        if letter == "\\":
            self.at += 2
            return "\n" if script[at : at + 2] == "\\\n" else "Q"
        if letter == "'" and not self.within:
            return self._skip(script.find("'", at + 1))
        if letter == '"':
            if self.double:
                return self._skip(_find_closing(script, at))
            self.within = not self.within
        elif not self.within and letter == "#" and (at == 0 or script[at - 1] in " \t\n;&|("):
            end = script.find("\n", at)
            self.at = len(script) if end < 0 else end
            return ""
        elif not self.within and script.startswith("<<", at) and not script.startswith("<<<", at):
            if (match := HEREDOC.match(script, at)) is not None:
                self.bodies.append((match[4], bool(match[1])))
                self.at = match.end()
                return " "
        elif not self.within and script.startswith("<<<", at):
            self.at += 3
            return "<<<"
        elif letter == "\n" and self.bodies:
            return self._skip_bodies()
        self.at += 1
        return letter

    def _skip(self, end: int) -> str:
        begin, self.at = self.at, len(self.script) if end < 0 else end + 1
        return "Q" + "\n" * self.script.count("\n", begin, self.at)

    def _skip_bodies(self) -> str:
        begin = self.at
        for word, tabs in self.bodies:
            indent = r"\t*" if tabs else ""
            pattern = rf"\n{indent}{re.escape(word)}(?=\n|\Z)"
            match = re.compile(pattern).search(self.script, self.at)
            self.at = len(self.script) if match is None else match.end()
        self.bodies = []
        return "\n" * self.script.count("\n", begin, self.at)


def _find_closing(script: str, at: int) -> int:
    """Return where the double quotes that open at *at* are closed, or -1."""
    match = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL).match(script, at)
    return -1 if match is None else match.end() - 1
