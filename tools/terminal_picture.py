"""What a terminal shows after commands were typed into it, as a picture in SVG."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROWS = 200  # more than is printed, so that nothing scrolls away
# The codes that are drawn: colours and weights, the way of the cursor, and what is erased. Others show nothing.
CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[=>]")
RESET = "\x1b[0m"
PROMPT = "\x1b[1;32m$\x1b[0m "


class Screen:
    """The lines of a terminal: each is a list of cells, which are a character and the colours before it."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines: list[list[tuple[str, str]]] = [[]]
        self.row = self.column = 0
        self.style = ""

    def write(self, text: str) -> None:
        """Show *text*, which may have control codes."""
        at = 0
        while at < len(text):
            if code := CODE.match(text, at):
                self._control(code[1] or "", code[2] or "")
                at = code.end()
            else:
                self._put(text[at])
                at += 1

    def _put(self, character: str) -> None:
        if character == "\n":
            self.row += 1
            self.column = 0
        elif character == "\r":
            self.column = 0
        elif character >= " ":
            if self.column == self.columns:
                self._put("\n")
            line = self._line()
            line.extend([(" ", "")] * (self.column + 1 - len(line)))
            line[self.column] = (character, self.style)
            self.column += 1
        self._line()

    def _line(self) -> list[tuple[str, str]]:
        while len(self.lines) <= self.row:
            self.lines.append([])
        return self.lines[self.row]

    def _control(self, values: str, letter: str) -> None:
        count = int(values) if values.isdigit() else 1
        match letter:
            case "m":
                self.style = "" if values in ("", "0") else f"{self.style}\x1b[{values}m"
            case "A":
                self.row = max(self.row - count, 0)
            case "B":
                self.row += count
            case "C":
                self.column += count
            case "D":
                self.column = max(self.column - count, 0)
            case "G":
                self.column = count - 1
            case "K":
                del self._line()[0 if values == "2" else self.column :]
            case "J":
                del self._line()[self.column :]
                del self.lines[self.row + 1 :]

    def text(self) -> list[str]:
        """Return the lines with codes for their colours, without empty lines at the end."""
        shown = ["".join(f"{RESET}{style}{c}" for c, style in line) for line in self.lines]
        while shown and not Text.from_ansi(shown[-1]).plain.strip():
            shown.pop()
        return shown


def typed(screen: Screen, line: str, folder: Path, env: Mapping[str, str]) -> int:
    """Type *line* into a shell in *folder*, show what it prints, and return its exit code."""
    screen.write(f"{PROMPT}\x1b[1m{line}{RESET}\r\n")
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", ROWS, screen.columns, 0, 0))
        os.chdir(folder)
        os.execve("/bin/sh", ["sh", "-c", line], dict(env))
    printed = b""
    with contextlib.suppress(OSError):  # Linux raises it when the program has closed the terminal
        while data := os.read(terminal, 1 << 16):
            printed += data
    os.close(terminal)
    screen.write(printed.decode())
    screen.write("\r\n")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def svg(screen: Screen, title: str) -> str:
    """Return the picture; it names no outside address."""
    console = Console(record=True, width=screen.columns, file=StringIO(), force_terminal=True)
    for line in (*screen.text(), ""):  # the picture cuts the last line
        console.print(Text.from_ansi(line), soft_wrap=True)
    drawn = console.export_svg(title=title, unique_id="run")
    return re.sub(r"\s*@font-face \{.*?\n    \}|\s*<!--.*?-->", "", drawn, flags=re.DOTALL)
