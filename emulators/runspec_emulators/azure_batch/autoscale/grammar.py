"""Autoscale formulas as trees: statements `name = expression;`, read by precedence.

https://learn.microsoft.com/en-us/azure/batch/batch-automatic-scaling
"""

from __future__ import annotations

import re
from typing import Any

MOST_BYTES = 8 * 1024  # "The formula string can't exceed 8 KB"
MOST_STATEMENTS = 100  # "can include up to 100 statements that are separated by semicolons"
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)
    |(?P<name>\$?[A-Za-z_]\w*)
    |(?P<string>"[^"\n]*"|'[^'\n]*')
    |(?P<mark>&&|\|\||[<>=!]=|[-+*/<>!=?:;,.()%])""",
    re.VERBOSE | re.DOTALL,
)
LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/"),
)
Tree = tuple[Any, ...]


class FormulaError(Exception):
    """A formula that cannot be read or evaluated: the message says why."""


def tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise FormulaError(f"unexpected character {text[at]!r}")
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append((kind, match[0]))
        at = match.end()
    return [*tokens, ("end", "")]


class Parser:
    """Reads one formula."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0

    @property
    def _next(self) -> str:
        kind, text = self._tokens[self._at]
        return text if kind == "mark" else ""

    def _take(self, *marks: str) -> str | None:
        if self._next in marks and self._next:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _need(self, mark: str) -> None:
        if not self._take(mark):
            raise FormulaError(f"{mark!r} is expected before {self._tokens[self._at][1]!r}")

    def statements(self) -> list[tuple[str, Tree]]:
        """Return (name, expression) of each statement."""
        statements = []
        while self._tokens[self._at][0] != "end":
            if self._take(";"):
                continue
            kind, name = self._tokens[self._at]
            if kind != "name":
                raise FormulaError(f"a variable is expected before {name!r}")
            self._at += 1
            self._need("=")
            statements.append((name, self.expression()))
            if self._tokens[self._at][0] != "end":
                self._need(";")
        return statements

    def expression(self) -> Tree:
        test = self._binary(0)
        if not self._take("?"):
            return test
        yes = self.expression()
        self._need(":")
        return ("?", test, yes, self.expression())

    def _binary(self, level: int) -> Tree:
        if level == len(LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while (mark := self._take(*LEVELS[level])) is not None:
            left = ("op", mark, left, self._binary(level + 1))
        return left

    def _unary(self) -> Tree:
        mark = self._take("-", "!", "+")
        return ("unary", mark, self._unary()) if mark else self._postfix()

    def _postfix(self) -> Tree:
        tree = self._primary()
        while self._take("."):
            kind, name = self._tokens[self._at]
            if kind != "name":
                raise FormulaError(f"a name is expected before {name!r}")
            self._at += 1
            args = self._args() if self._next == "(" else None
            tree = ("member", tree, name, args)
        self._take("%")  # of GetSamplePercent, as in "70 %"
        return tree

    def _args(self) -> list[Tree]:
        self._need("(")
        args: list[Tree] = []
        while not self._take(")"):
            if args:
                self._need(",")
            args.append(self.expression())
        return args

    def _primary(self) -> Tree:
        kind, text = self._tokens[self._at]
        if kind == "mark" and self._take("("):
            tree = self.expression()
            self._need(")")
            return tree
        self._at += 1
        if kind == "number":
            return ("value", float(text))
        if kind == "string":
            return ("value", text[1:-1])
        if kind == "name":
            return ("call", text, self._args()) if self._next == "(" else ("name", text)
        raise FormulaError(f"an expression is expected before {text or 'the end'!r}")


def read(text: str) -> list[tuple[str, Tree]]:
    """Read a formula; raise FormulaError."""
    if len(text.encode()) > MOST_BYTES:
        raise FormulaError("the formula is longer than 8 KB")
    statements = Parser(text).statements()
    if not statements:
        raise FormulaError("the formula has no statement")
    if len(statements) > MOST_STATEMENTS:
        raise FormulaError("the formula has more than 100 statements")
    return statements


def names(tree: Tree) -> list[tuple[str, str]]:
    """Return what a tree names: ("name" | "call" | "member", text)."""
    references: list[tuple[str, str]] = []
    if tree[0] in ("name", "call"):
        references.append((tree[0], tree[1]))
    if tree[0] == "member":
        references.append(("member", tree[2]))
    for part in tree[1:]:
        for inner in part if isinstance(part, list) else [part]:
            if isinstance(inner, tuple):
                references += names(inner)
    return references
