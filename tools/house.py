"""Measure how comfortable the sources are to read, beside what is wanted.

    .venv/bin/python tools/house.py            the sources of this checkout
    .venv/bin/python tools/house.py --at REV   those of another commit, for a comparison

Only the text of the sources is read. Tables of machines and prices that are modules count as lines alone.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CORE, PRODUCT = ("runner/runspec_jobs/",), ("runner/", "providers/", "emulators/")
INTERFACE = "runner/runspec_jobs/provider/"  # protocols that others implement
STREAM = {"readable", "writable", "seekable", "readall", "readinto"}  # methods of io.RawIOBase
FACE = "runner/runspec_jobs/provider/__init__.py"
TITLES = 200  # commits whose titles are measured
# A name that begins with one of these says what its function does. Properties and protocols are nouns on purpose.
VERBS = set(
    """
    abandon abort accept acquire adapt add adjust adopt advance advise allow amend announce answer append apply
    arrange ask assemble assert assign attach await balance begin bind blame block book break bring build bundle
    bury buy call can cancel cap capture carry catch cause change charge check choose claim clamp classify clean
    clear clip close collapse collect combine come commit compare compile complain complete compress compute
    confirm connect consume contain continue convert copy correct count cover create cut deafen decide declare
    decode decrypt deduce define delete deliver demand deny derive describe destroy detach detect determine dial
    die diff digest discard discover display distrust divide do download drain draw drop dump edit emit empty
    enable encode encrypt end enforce enrich ensure enter escape estimate evaluate examine exceed excuse execute
    exit expand expect explain export express extend extract fail feed fetch fill filter find finish fit fix
    flatten flush fold follow forbid forget fork format forward free freeze gather generate get give go grant
    group grow guard guess halt handle has hash have hear help hide hint hold identify ignore import include
    indent infer inform inherit init inject insert inspect install interpret interrupt invent invoke is join
    judge keep kill know label lay lead learn leave let lift limit link list listen load locate lock log look
    lose lower make manage map mark match may measure meet mend merge migrate miss mount move multiply must
    narrow need normalize note notice obey observe occupy omit open order overlap override overwrite pack pad
    paint parse part pass paste patch pause pay perform permit persist pick pin plan play point poll post
    predict prefer prepare prevent print probe proceed process produce promise propose protect prove provide
    prune publish pull pump push put quote raise rank reach read rebuild recall receive reclaim recognize
    reconcile record recover reduce refer refresh refuse register rehearse rehydrate reject release remember
    remind remove rename render repair repeat replace replay reply report request require reserve reset resize
    resolve respond restart restore restrict resume retrieve retry return reuse reverse revoke rewrite rotate
    round run save say scale scan seal search see seek select send separate serve set settle shall share ship
    shorten should show shut sign simulate sit skip sleep slice sniff solve sort spare spawn specify spell split
    spread stamp stand start stay stop store stream strike strip submit subtract suggest suit sum summarize
    supply support suppose survey survive suspend swap switch sync take talk tear tell terminate test thin tidy
    tie time tint touch trace track trade transfer translate trim truncate trust try turn undo unescape unify
    unlink unlock unmount unpack unquote update upgrade upload use validate vary veil verify visit wait wake
    walk want warn watch weigh widen wipe wish wrap write yield
    """.split()
)


class Row(NamedTuple):
    """One measure: its value here, and the one that is wanted."""

    measure: str
    value: str
    wanted: str


class Source(NamedTuple):
    """A Python file of the product."""

    path: str
    text: str
    tree: ast.Module

    @property
    def is_data(self) -> bool:
        return self.path.endswith("_table.py") and '\nTABLE = """' in self.text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--at", metavar="REV", help="measure this commit, not the files as they are"
    )
    asked = parser.parse_args()
    files = read_commit(asked.at) if asked.at else read_files()
    for row in measure(files, read_titles(asked.at or "HEAD")):
        print(f"{row.measure:52} {row.value:>34}  {row.wanted}")
    return 0


def read_files() -> dict[str, str]:
    """Return the texts of the Python files that git knows, by their paths."""
    names = run_git("ls-files", "-z", "*.py").decode().split("\0")
    return {name: (ROOT / name).read_text() for name in names if (ROOT / name).is_file()}


def read_commit(rev: str) -> dict[str, str]:
    """Return the texts of the Python files of a commit, by their paths."""
    with tarfile.open(fileobj=io.BytesIO(run_git("archive", rev))) as archive:
        return {
            member.name: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive
            if member.isfile() and member.name.endswith(".py")
        }


def read_titles(rev: str) -> list[str]:
    return run_git("log", f"-{TITLES}", "--no-merges", "--format=%s", rev).decode().splitlines()


def run_git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def measure(files: Mapping[str, str], titles: list[str]) -> Iterator[Row]:
    """Yield all measures of *files*, which are texts by path, and of the *titles* of commits."""
    product = [
        Source(path, text, ast.parse(text))
        for path, text in sorted(files.items())
        if path.startswith(PRODUCT)
    ]
    code = [source for source in product if not source.is_data]
    yield Row("lines of the product", f"{count_lines(s.text for s in product):,}", "fewer")
    data = count_lines(s.text for s in product if s.is_data)
    yield Row("  of these, tables written as Python", f"{data:,}", "0")
    tests = (text for path, text in files.items() if path.startswith("tests/"))
    yield Row("lines of the tests", f"{count_lines(tests):,}", "fewer")
    core = [source for source in code if source.path.startswith(CORE)]
    yield Row("functions that begin with a verb (core)", share_of_verbs(core), ">= 50 %")
    yield Row("functions that begin with a verb (all)", share_of_verbs(code), ">= 50 %")
    yield Row("commonest local names", show_commonest(count_locals(code)), "the thing's name")
    once = list(list_single_uses(code))
    middle = statistics.median(once) if once else 0
    yield Row("private functions used once, lines (median)", f"{len(once)}, {middle:g}", "few")
    modules = count_modules(product)
    small = [folder for folder, names in modules.items() if 1 <= len(names) <= 2]
    yield Row("folders of one or two modules", str(len(small)), "0")
    doubled = [f for f, names in modules.items() if PurePosixPath(f).name in names]
    yield Row("modules named like their folder", str(len(doubled)), "0")
    short = [s for s in product if s.path.endswith("__init__.py") and s.text.count("\n") <= 3]
    yield Row("__init__ files of at most three lines", str(len(short)), "those that are needed")
    face = next((s for s in product if s.path == FACE), None)
    yield Row("names in the face of provider", str(len(list_face(face)) if face else 0), "<= 90")
    yield Row("comments in 100 lines of code", f"{share_comments(code):.3f}", ">= 3.5")
    lengths = sorted(map(len, titles))
    yield Row("title of a commit, 90th percentile", f"{lengths[len(lengths) * 9 // 10]}", "<= 60")


def count_lines(texts: Iterator[str]) -> int:
    return sum(text.count("\n") for text in texts)


def list_named(sources: list[Source]) -> Iterator[str]:
    """Yield the names of functions that could have been chosen otherwise: style.md asks these to be verbs."""
    interfaces = {name for source in sources for name in list_interface(source)}
    for source in sources:
        methods = {
            id(node)
            for kind in ast.walk(source.tree)
            if isinstance(kind, ast.ClassDef)
            for node in kind.body
        }
        for node in list_functions(source.tree):
            is_given = id(node) in methods and node.name in interfaces | STREAM
            # What a test is called follows a rule of its own: feature, condition, outcome.
            if not is_given and not node.name.startswith("test_"):
                yield node.name


def list_interface(source: Source) -> Iterator[str]:
    """Yield the methods of the protocols for authors of providers: docs/provider.md promises their names."""
    if not source.path.startswith(INTERFACE):
        return
    for kind in ast.walk(source.tree):
        if isinstance(kind, ast.ClassDef) and "Protocol" in map(ast.unparse, kind.bases):
            yield from (node.name for node in kind.body if isinstance(node, ast.FunctionDef))


def list_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield what is called by its name: no property, no dunder, no fixture, no command of Typer."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {
                ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in node.decorator_list
            }
            nouns = {
                "property",
                "cached_property",
                "setter",
                "overload",
                "command",
                "callback",
                "fixture",
            }
            if not node.name.startswith("__") and not decorators & nouns:
                yield node


def share_of_verbs(sources: list[Source]) -> str:
    names = list(list_named(sources))
    verbs = sum(name.strip("_").partition("_")[0] in VERBS for name in names)
    return f"{100 * verbs / max(1, len(names)):.0f} % of {len(names):,}"


def count_locals(sources: list[Source]) -> Counter[str]:
    """Count the assignments to each name within functions."""
    names: Counter[str] = Counter()
    for source in sources:
        for function in list_functions(source.tree):
            names.update(
                node.id
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )
    return names


def show_commonest(names: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in names.most_common(4) if name != "_")


def list_single_uses(sources: list[Source]) -> Iterator[int]:
    """Yield the length in lines of each private function of a module that it names once."""
    for source in sources:
        words = Counter(re.findall(r"\b_\w+", source.text))
        functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef)]
        for node in functions:
            # Once where it is defined, and once where it is used.
            if re.match("_[a-z]", node.name) and words[node.name] == 2:
                yield (node.end_lineno or node.lineno) - node.lineno + 1


def count_modules(sources: list[Source]) -> dict[str, set[str]]:
    """Return the names of the modules and packages of each folder."""
    folders: dict[str, set[str]] = {}
    for source in sources:
        path = PurePosixPath(source.path)
        if path.name == "__init__.py":
            folders.setdefault(str(path.parent), set())
            folders.setdefault(str(path.parent.parent), set()).add(path.parent.name)
        else:
            folders.setdefault(str(path.parent), set()).add(path.stem)
    return {folder: names for folder, names in folders.items() if "/" in folder}


def list_face(source: Source) -> list[str]:
    """Return the public names that a package gives to others."""
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def share_comments(sources: list[Source]) -> float:
    """Return how many comments stand in 100 lines that are not empty, without those for linters and type checkers."""
    comments, lines = 0, 0
    for source in sources:
        lines += sum(bool(line.strip()) for line in source.text.splitlines())
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT and not re.match(
                "# *(noqa|type:|pragma|fmt:|!)", token.string
            ):
                comments += 1
    return 100 * comments / max(1, lines)


if __name__ == "__main__":
    sys.exit(main())
