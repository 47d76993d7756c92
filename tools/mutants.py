"""Break random lines of the product, and name those whose break no test sees.

    tools/mutate 100 --seed 1          the quick tests, which plain `pytest` runs
    tools/mutate 100 --seed 1 --rest   survivors also meet the tests that start processes

A mutant is the source with one operator, constant or statement changed. Texts of messages, annotations and docstrings
stay as they are: a test that compares all of them would say nothing. A mutant meets the tests nearest to its file:
first those of the same folder, then of its package, then all. The checkout stays as it is, because mutants live in
a copy below the temporary folder. The exit code is 1 if more survive than `--most` allows. Each survivor costs a run of
all quick tests.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("runner/", "providers/", "emulators/")
# Stand-ins and tests that ship are tools of the tests; tables are data.
LEFT_OUT = ("runspec_emulators/", "runspec_jobs/testing/", "_table.py", "__init__.py")
LIMIT_S = 900  # a mutant that waits for ever is killed, and counts as seen


SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}


class Mutant(NamedTuple):
    """One change: the bytes from *start* to *end* of the source become *text*."""

    line: int  # where it begins, from 1
    start: int
    end: int
    before: str
    text: str

    def apply(self, source: str) -> str:
        """Return *source* with this change."""
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.end :]).decode()


def list_mutants(source: str) -> list[Mutant]:
    """Return all mutants of *source*, in its order."""
    starts = _line_starts(source)
    found = []
    for node in _walk(ast.parse(source)):
        for changed in _changes(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            before = source.encode()[start:end].decode()
            text = ast.unparse(changed)
            # A part of an expression may need the parentheses that unparsing leaves out.
            if isinstance(node, ast.expr):
                text = f"({text})"
            found.append(Mutant(node.lineno, start, end, before, text))
    return found


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _walk(node: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield statements and expressions, without annotations and what only a type checker reads."""
    if isinstance(node, ast.stmt | ast.expr):
        yield node
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and _is_typing(node.test)):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _is_typing(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _changes(node: ast.stmt | ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            changed = copy.deepcopy(node)
            changed.ops = [SWAPPED[type(operator)]()]  # type: ignore[list-item]
            yield changed
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if _is_swapped(node, operator):
            other = copy.deepcopy(node)
            other.op = SWAPPED[type(operator)]()  # type: ignore[assignment]
            yield other
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.IfExp(test=test):
            shorter = copy.deepcopy(node)
            shorter.test = ast.UnaryOp(ast.Not(), test)
            yield shorter


def _is_swapped(node: ast.AST, operator: ast.AST) -> bool:
    """Return whether *operator* has a mutant. The difference of texts is an error that any call shows."""
    texts = (
        isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node)
    )
    return type(operator) in SWAPPED and not (isinstance(operator, ast.Add) and any(texts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, help="how many lines to break")
    parser.add_argument(
        "--seed", type=int, default=1, help="which lines: equal seeds break equal lines"
    )
    parser.add_argument(
        "--rest", action="store_true", help="let survivors meet the other tests as well"
    )
    parser.add_argument("--most", type=int, default=10, help="survivors that are accepted")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        checkout = Path(folder)
        files = copy_checkout(checkout)
        if asked.number and not passes(checkout, []):
            print("the quick tests fail without any change: mend that first", file=sys.stderr)
            return 2
        survivors = []
        for number, (file, mutant) in enumerate(choose(files, asked.number, asked.seed), 1):
            seen_by = find_killer(checkout, file, mutant, rest=asked.rest)
            change = f"{file}:{mutant.line}: {show(mutant.before)} -> {show(mutant.text)}"
            print(f"{number:4} {seen_by or 'SURVIVES':40} {change}", flush=True)
            if not seen_by:
                survivors.append(change)
    print(f"{len(survivors)} of {asked.number} survive")
    return int(len(survivors) > asked.most)


def copy_checkout(checkout: Path) -> list[str]:
    """Copy the files that git knows, and return their names."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        target = checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    # Some tests ask git for the files of the checkout.
    subprocess.run(["git", "init", "-q"], cwd=checkout, check=True)
    subprocess.run(["git", "add", "-A"], cwd=checkout, check=True)
    return listed.stdout.splitlines()


def choose(files: list[str], number: int, seed: int) -> list[tuple[str, Mutant]]:
    """Return a mutant for each of *number* lines."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for file in files:
        if (
            file.startswith(PRODUCT)
            and file.endswith(".py")
            and not any(x in file for x in LEFT_OUT)
        ):
            for mutant in list_mutants((ROOT / file).read_text()):
                lines.setdefault((file, mutant.line), []).append(mutant)
    dice = random.Random(seed)  # noqa: S311 - it draws lines
    chosen = dice.sample(sorted(lines), number)
    return [(file, dice.choice(lines[file, line])) for file, line in chosen]


def find_killer(checkout: Path, file: str, mutant: Mutant, *, rest: bool) -> str | None:
    """Return which tests see *mutant*, or None."""
    path = checkout / file
    source = path.read_text()
    write(path, mutant.apply(source))
    try:
        for name, arguments in suites(checkout, file, rest=rest):
            if not passes(checkout, arguments):
                return name
    finally:
        write(path, source)
    return None


def write(path: Path, source: str) -> None:
    """Give *path* a time of its own, by which Python tells whether its bytecode is old: it counts whole seconds."""
    later = path.stat().st_mtime + 2
    path.write_text(source)
    os.utime(path, (later, later))


def suites(checkout: Path, file: str, *, rest: bool) -> list[tuple[str, list[str]]]:
    """Return the arguments of pytest for the tests that a mutant of *file* meets, the nearest first."""
    package, *inner = Path(file).parts[1:-1]
    nearest = Path("tests/unit", package, *inner)
    while not (checkout / nearest).exists():
        nearest = nearest.parent
    found = [
        ("those of " + str(folder), [str(folder)])
        for folder in dict.fromkeys((nearest, Path("tests/unit", package)))
    ]
    found.append(("the quick tests", []))
    if rest:
        found.append(("tests with processes", ["-m", "not slow"]))
        found.append(("all tests", ["-m", "not matrix"]))
    return found


def passes(checkout: Path, arguments: list[str]) -> bool:
    paths = os.pathsep.join(str(checkout / folder) for folder in PRODUCT)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    try:
        ended = subprocess.run(
            command,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode in (0, 5)  # 5: no test is there


def show(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


if __name__ == "__main__":
    sys.exit(main())
