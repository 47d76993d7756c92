"""Break random lines of the product, and name those whose break no test sees.

    tools/mutate 100 --seed 1          the quick tests, which `tools/test` runs
    tools/mutate 100 --seed 1 --rest   survivors also meet the slow tests

A mutant is the source of a commit with one operator, constant, condition or statement changed. These are no mutants,
because a change of them changes nothing that a test should see: docstrings, comments, annotations and what only a type
checker reads, decorators, and all texts with the expressions inside of f-strings, so the words of messages, of logs and
of `__all__`. Tables of data, stand-ins and the contract suite are not broken either.

A mutant first meets the tests that are nearest by their folder, the name of their file, and what they mention, plain
ones for SHARE_S and then those that start processes for PROCESSES_S: see `forked_mutants`. All mutants that are alive
then meet all tests of plain `pytest` together, in one run; a test that fails there is tried with each of them. Those
that still live meet the tests that start processes, first those of the nearest folders and of the contract, then all. A
test that fails is run again alone, so that no accident counts.

The checkout stays as it is, because mutants live in a clone below the temporary folder. The exit code is 1 if more
survive than `--most` allows.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from forked_mutants import Change, Verdict

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("runner/", "providers/")
SOURCES = ("runner", "providers", "emulators", "tools")
LEFT_OUT = ("runspec_jobs/testing/", "__init__.py")  # tests that ship are tools of the tests
TEST_S = 120  # a test that a mutant makes wait for ever fails after that
LIMIT_S = 7200.0  # a run of pytest that takes longer is killed
PROCESSES = ("-m", "process and not slow")
REST = ("-m", "slow and not matrix")
# Which tests of the contract run the code of a package; those of `local` run most of the core and of the agent.
CONTRACT = {
    "runspec_aws": "aws-batch",
    "runspec_azure": "azure-batch and not azure-batch-ai",
    "runspec_batchai": "azure-batch-ai",
    "runspec_kubernetes": "kubernetes",
    "runspec_parallelcluster": "parallelcluster",
    "runspec_slurm": "slurm",
}


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
    mutants = []
    for node in _walk(ast.parse(source)):
        for part, changed in _changes(node):
            start = starts[part.lineno - 1] + part.col_offset
            end = starts[(part.end_lineno or part.lineno) - 1] + (part.end_col_offset or 0)
            before = source.encode()[start:end].decode()
            text = ast.unparse(changed)
            # A part of an expression may need the parentheses that unparsing leaves out.
            if isinstance(part, ast.expr):
                text = f"({text})"
            mutants.append(Mutant(part.lineno, start, end, before, text))
    return mutants


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


def _changes(node: ast.stmt | ast.expr) -> Iterator[tuple[ast.stmt | ast.expr, ast.AST]]:
    """Yield parts of *node*, and what each becomes."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            changed = copy.deepcopy(node)
            changed.ops = [SWAPPED[type(operator)]()]  # type: ignore[list-item]
            yield node, changed
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if _is_swapped(node, operator):
            other = copy.deepcopy(node)
            other.op = SWAPPED[type(operator)]()  # type: ignore[assignment]
            yield node, other
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.Constant(value=bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield node, ast.Constant(value + 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield node, ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield node, ast.Pass()
        case ast.IfExp(test=test):
            shorter = copy.deepcopy(node)
            shorter.test = ast.UnaryOp(ast.Not(), test)
            yield node, shorter
        case ast.If(test=test) | ast.While(test=test) if not (
            isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)
            or _is_typing(test)
        ):
            yield test, ast.UnaryOp(ast.Not(), test)


def _is_swapped(node: ast.AST, operator: ast.AST) -> bool:
    """Return whether *operator* has a mutant. The difference of texts is an error that any call shows."""
    texts = (
        isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node)
    )
    return type(operator) in SWAPPED and not (isinstance(operator, ast.Add) and any(texts))


class Break(NamedTuple):
    """A mutant of a file, and the tests that met it."""

    file: str
    mutant: Mutant
    met: str = ""

    def __str__(self) -> str:
        before, text = show(self.mutant.before), show(self.mutant.text)
        return f"{self.file}:{self.mutant.line}: {before} -> {text}"


class Clone:
    """A clone of the repository at *commit*, in which mutants live."""

    def __init__(self, folder: Path, commit: str, workers: int) -> None:
        self._folder, self._workers = folder, workers
        self.path = folder / "checkout"
        git("clone", "-q", "--shared", "--no-checkout", str(ROOT), str(self.path))
        git("-C", str(self.path), "checkout", "-q", "--detach", commit)

    def read(self, file: str) -> str:
        return (self.path / file).read_text()

    def run_with(
        self,
        breaks: Iterable[Break],
        tests: Sequence[str] | None = None,
        more: Sequence[str] = (),
    ) -> list[str]:
        """Return which tests fail with *breaks*, all of them or those listed, or why no test could be run."""
        sources = {broken.file: self.read(broken.file) for broken in breaks}
        changed = dict(sources)
        for broken in sorted(breaks, key=lambda broken: -broken.mutant.start):
            changed[broken.file] = broken.mutant.apply(changed[broken.file])
        try:
            for file, text in changed.items():
                write(self.path / file, text)
            return self.run(tests, more)
        finally:
            for file, text in sources.items():
                write(self.path / file, text)

    def run_forked(self, breaks: Sequence[Break]) -> dict[int, Verdict]:
        """Return what became of each mutant, by its number, among the tests of plain pytest that are nearest."""
        mutants, verdicts = self._folder / "mutants", self._folder / "verdicts"
        with mutants.open("w") as stream:
            for number, (file, mutant, _) in enumerate(breaks, 1):
                source = self.read(file)
                change = Change(number, file, mutant.apply(source), function_of(source, mutant))
                stream.write(f"{json.dumps(change)}\n")
        verdicts.write_text("")
        words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
        words += ["-p", "forked_mutants", f"--mutants={mutants}", f"--verdicts={verdicts}"]
        words += ["-m", "not slow"]
        self._wait([*words, f"--timeout={TEST_S}", f"--basetemp={self._folder / 'tests'}"])
        found = (Verdict(*json.loads(line)) for line in verdicts.read_text().splitlines())
        return {verdict.number: verdict for verdict in found}

    def run(self, tests: Sequence[str] | None = None, more: Sequence[str] = ()) -> list[str]:
        """Return which tests fail, all of them or those listed, or why no test could be run."""
        failed, listed = self._folder / "failed", self._folder / "listed"
        failed.write_text("")
        # Of an option that pytest learns later, it would take a value of its own word for a path, and for the root.
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        words += ["-p", "listed_tests", f"--failed={failed}", f"--timeout={TEST_S}"]
        words += [f"--basetemp={self._folder / 'tests'}", *more]
        if tests is None:
            words += ["-n", str(self._workers)]
        else:
            listed.write_text("".join(f"{test}\n" for test in tests))
            words += ["-n", "0", f"--listed={listed}"]
            words += sorted({test.partition("::")[0] for test in tests})
        code = self._wait(words)
        if names := list(dict.fromkeys(failed.read_text().splitlines())):
            return names
        return [] if code in (0, 5) else [f"(pytest ends with {code})"]  # 5: no test is there

    def _wait(self, words: Sequence[str]) -> int:
        env = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # The plugin is that of this checkout, even if the commit that is broken has none.
        paths = [*(self.path / name for name in SOURCES), ROOT / "tools"]
        env["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        with (self._folder / "output").open("wb") as output:
            process = subprocess.Popen(
                words, cwd=self.path, env=env, stdout=output, stderr=output, start_new_session=True
            )
            try:
                return process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                return -signal.SIGKILL
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def main() -> int:
    asked = read_options()
    commit = git("rev-parse", "--verify", f"{asked.at}^{{commit}}").strip()
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        clone = Clone(Path(folder), commit, asked.workers)
        drawn = [Break(*pair) for pair in choose(clone, asked.number, asked.seed)]
        if asked.only:
            drawn = [drawn[number - 1] for number in asked.only]
        alive = meet_nearest(clone, drawn)
        plain = alive = meet_all(clone, alive, "all tests of plain pytest")
        alive = meet_processes(clone, alive)
        quick = alive = meet_all(clone, alive, "all tests that start processes", PROCESSES)
        if asked.rest:
            alive = meet_all(clone, alive, "all slow tests", REST)
    print(f"{len(plain)} of {len(drawn)} survive the tests of plain pytest")
    print(
        f"{len(quick)} of {len(drawn)} survive the quick tests, which include those that start processes"
    )
    if asked.rest:
        print(f"{len(alive)} of {len(drawn)} survive all tests")
    return int(len(quick) > asked.most or (asked.rest and bool(alive)))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, help="how many lines to break")
    parser.add_argument(
        "--seed", type=int, default=1, help="which lines: equal seeds break equal lines"
    )
    parser.add_argument(
        "--rest", action="store_true", help="let survivors meet the slow tests as well"
    )
    parser.add_argument("--most", type=int, default=10, help="survivors that are accepted")
    parser.add_argument("--at", default="HEAD", help="the commit to break, without later changes")
    parser.add_argument("--only", type=int, nargs="+", help="only the mutants of these numbers")
    parser.add_argument("--workers", type=int, default=2, help="processes of a run of all tests")
    return parser.parse_args()


def git(*words: str) -> str:
    """Return what a command of git prints."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def choose(clone: Clone, number: int, seed: int) -> list[tuple[str, Mutant]]:
    """Return a mutant for each of *number* lines."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for file in git("-C", str(clone.path), "ls-files").splitlines():
        if file.startswith(PRODUCT) and file.endswith(".py"):
            if any(part in file for part in LEFT_OUT):
                continue
            for mutant in list_mutants(clone.read(file)):
                lines.setdefault((file, mutant.line), []).append(mutant)
    dice = random.Random(seed)  # noqa: S311 - it draws lines
    chosen = dice.sample(sorted(lines), number)
    return [(file, dice.choice(lines[file, line])) for file, line in chosen]


def meet_nearest(clone: Clone, drawn: Sequence[Break]) -> list[Break]:
    """Let each mutant meet the tests that are nearest to it; return those that live."""
    alive = []
    verdicts = clone.run_forked(drawn)
    for number, broken in enumerate(drawn, 1):
        verdict = verdicts.get(number, Verdict(number, "", 0, []))
        killer, met = verdict.killer, f"{verdict.met} nearest tests"
        if verdict.nearest:  # it runs when its module is imported
            killer = find_killer(clone, broken, verdict.nearest) or ""
            met = f"{len(verdict.nearest)} nearest tests"
        said = f"seen by {killer}" if killer else f"LIVES after {met}"
        print(f"{number:4} {broken}\n     {said}", flush=True)
        if not killer:
            alive.append(broken._replace(met=met))
    return alive


def function_of(source: str, mutant: Mutant) -> str:
    """Return the full name of the innermost function that runs *mutant*, or nothing if an import does."""
    names: list[str] = []
    found = ""
    node: ast.AST = ast.parse(source)
    while inner := next(
        (
            child
            for child in _definitions(node)
            if child.body[0].lineno <= mutant.line <= (child.end_lineno or 0)
        ),
        None,
    ):
        names.append(inner.name)
        if not isinstance(inner, ast.ClassDef):
            found = ".".join(names)
            names.append("<locals>")
        node = inner
    return found if found and names[-1] == "<locals>" else ""


def _definitions(
    node: ast.AST,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the definitions in *node*, without those in other definitions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
        else:
            yield from _definitions(child)


def find_killer(clone: Clone, broken: Break, tests: Sequence[str]) -> str | None:
    """Return the first of *tests* that fails with a mutant, in two runs, or None."""
    left = list(tests)
    while left:
        failed = clone.run_with([broken], left, ["-x"])
        if not failed or failed[0] not in left:
            return failed[0] if failed else None
        if clone.run_with([broken], failed[:1]):
            return failed[0]
        left.remove(failed[0])
    return None


def meet_processes(clone: Clone, alive: Sequence[Break]) -> list[Break]:
    """Let each mutant meet the nearest tests that start processes; return those that live."""
    left = []
    for broken in alive:
        suites = process_suites(clone.path, broken.file)
        killers = (find_seer(clone, broken, suite) for suite in suites)
        killer = next((killer for killer in killers if killer), None)
        print(
            f"{broken}\n     {f'seen by {killer}' if killer else 'LIVES'}, with processes",
            flush=True,
        )
        if not killer:
            left.append(broken)
    return left


def process_suites(checkout: Path, file: str) -> list[tuple[str, ...]]:
    """Return the arguments of pytest for the tests with processes that a mutant of *file* meets, in order."""
    package, *inner = Path(file).parts[1:-1]
    nearest = Path("tests/unit", package, *inner)
    while not (checkout / nearest).exists():
        nearest = nearest.parent
    folders = dict.fromkeys((str(nearest), f"tests/unit/{package}"))
    contract = ("-k", CONTRACT.get(package, "local"), "tests/contract")
    return [*((folder,) for folder in folders if (checkout / folder).exists()), contract]


def find_seer(clone: Clone, broken: Break, suite: Sequence[str]) -> str | None:
    """Return a test with processes that fails with a mutant, in two runs, and without it does not, or None."""
    left_out: list[str] = []
    while True:
        failed = clone.run_with([broken], more=["-x", *PROCESSES, *left_out, *suite])
        if not failed or "::" not in failed[0]:
            return failed[0] if failed else None
        one = failed[:1]
        if clone.run_with([broken], one, PROCESSES) and not clone.run(one, PROCESSES):
            return failed[0]
        left_out.append(f"--deselect={failed[0]}")


def meet_all(
    clone: Clone, alive: Sequence[Break], name: str, more: Sequence[str] = ()
) -> list[Break]:
    """Let mutants meet all tests together; return those that live."""
    survivors = []
    for group in apart(alive):
        killers = find_killers(clone, group, more)
        for broken in group:
            killer = killers.get(broken)
            verdict = f"seen by {killer}" if killer else "SURVIVES"
            print(f"{name}: {broken}\n     {verdict}; it lived after {broken.met}", flush=True)
            if not killer:
                survivors.append(broken)
    return survivors


def apart(breaks: Sequence[Break]) -> list[list[Break]]:
    """Return groups of mutants that do not overlap."""
    groups: list[list[Break]] = []
    for broken in breaks:
        for group in groups:
            if not any(_overlap(broken, other) for other in group):
                group.append(broken)
                break
        else:
            groups.append([broken])
    return groups


def _overlap(one: Break, other: Break) -> bool:
    return one.file == other.file and (
        one.mutant.start < other.mutant.end and other.mutant.start < one.mutant.end
    )


def find_killers(clone: Clone, group: Sequence[Break], more: Sequence[str]) -> dict[Break, str]:
    """Return which mutants of *group* a test sees, and which test that is.

    Tests that fail without any mutant as well see nothing.
    """
    if not group:
        return {}
    failed = clone.run_with(group, more=more)
    if failed and "::" not in failed[0]:  # pytest itself cannot run
        if len(group) == 1:
            return {group[0]: failed[0]}
        half = len(group) // 2
        return find_killers(clone, group[:half], more) | find_killers(clone, group[half:], more)
    if failed:
        fails_anyway = clone.run(failed, more)
        failed = [test for test in failed if test not in fails_anyway]
    killers = {}
    for broken in group if failed else ():
        if seen := clone.run_with([broken], failed, [*more, "-x"]):
            killers[broken] = seen[0]
    return killers


def write(path: Path, source: str) -> None:
    """Give *path* a time of its own, by which Python tells whether its bytecode is old: it counts whole seconds."""
    later = path.stat().st_mtime + 2
    path.write_text(source)
    os.utime(path, (later, later))


def show(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


if __name__ == "__main__":
    sys.exit(main())
