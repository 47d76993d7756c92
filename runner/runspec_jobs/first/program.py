"""What a program asks for, read from its text: nothing of it is imported or run."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.errors import UsageError

SUFFIXES = {".py": "python3", ".sh": "sh", ".bash": "bash"}
MOST_MODULES, MOST_BYTES = 200, 2_000_000  # of a program, and of one file
LAUNCHES = {"horovod": "horovod", "mpi4py": "mpi", "chainermn": "mpi"}
USE_GPUS = ("torch", "tensorflow", "jax", "cupy", "chainer", "keras", "mxnet", "lightning", "flax")
# Options with the folder of the results, the likeliest first: `--out`, `--output-dir`, `--save_dir`.
OUTPUT_WORDS = (
    "out output outputs result results save checkpoint checkpoints ckpt model work run log"
)
OPTION = re.compile(
    rf"--({OUTPUT_WORDS.replace(' ', '|')})(?:[-_]?(?:dir|folder|path))?", re.IGNORECASE
)
WITH_DIR = ("save", "model", "work", "run", "log")  # `--model` alone is rather the name of one
# Keyword arguments of libraries that name a folder which is written.
KEYWORDS = frozenset("output_dir log_dir logdir save_dir default_root_dir checkpoint_dir".split())
MAKERS = frozenset({"makedirs", "mkdir"})
INPUTS = frozenset("data dataset datasets input inputs cache .cache download downloads tmp".split())


class Program(NamedTuple):
    """A program: its folder, and what its text says.

    *path* is relative to *folder*. *imports* are the modules that come neither with Python nor with the program.
    *output_option* takes the folder of the results; *output_folder* is the relative folder that the program makes.
    """

    folder: Path
    path: str
    interpreter: str
    imports: tuple[str, ...] = ()
    launch: str = "none"
    gpu_user: str = ""
    output_option: str = ""
    output_folder: str = ""


class _Said(NamedTuple):
    """What the text of one module says, in the order of its lines."""

    imports: list[str]
    options: list[str]
    folders: list[str]
    is_distributed: bool


def is_program(path: Path) -> bool:
    """Return whether the name *path* is that of a program, and not of a spec."""
    return path.suffix in SUFFIXES


def read_program(path: Path) -> Program:
    """Return what the program at *path* asks for.

    Its folder is the current one if the program is below it, as its data then usually is. Raises UsageError if it
    cannot be read or is no Python.
    """
    full = Path(os.path.abspath(path))
    here = Path.cwd()
    folder = here if full.is_relative_to(here) else full.parent
    start = Program(folder, full.relative_to(folder).as_posix(), SUFFIXES[path.suffix])
    if path.suffix != ".py":
        _read_text(path)
        return start
    read = {full: _read_module(path, _read_text(path))}
    own = _list_own_modules(full.parent)
    queue = [name for name in read[full].imports if name in own]
    while queue and len(read) < MOST_MODULES:
        for file in _list_files(own[queue.pop()]):
            if file not in read and len(read) < MOST_MODULES:
                try:
                    read[file] = _read_module(file, _read_text(file))
                except UsageError:
                    continue  # not the program itself: what it says is not needed
                queue += [name for name in read[file].imports if name in own]
    imports = dict.fromkeys(n for said in read.values() for n in said.imports if n not in own)
    others = [name for name in imports if name not in sys.stdlib_module_names]
    launch = next((LAUNCHES[name] for name in LAUNCHES if name in imports), "none")
    if launch == "none" and any(said.is_distributed for said in read.values()):
        launch = "torchrun"
    main = read[full]
    return start._replace(
        imports=tuple(others),
        launch=launch,
        gpu_user=next((name for name in others if name in USE_GPUS), ""),
        output_option=min(main.options, key=_rank, default=""),
        output_folder=next(iter(main.folders), ""),
    )


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
    if len(data) > MOST_BYTES or b"\0" in data:
        raise UsageError(f"{path} is no program", "name a Python file or a shell script")
    return data.decode(errors="replace")


def _read_module(path: Path, text: str) -> _Said:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its escapes, which are not ours to judge
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        where = f"{path}:{exc.lineno}" if isinstance(exc, SyntaxError) else f"{path}"
        reason = exc.msg if isinstance(exc, SyntaxError) else str(exc)
        raise UsageError(f"{where} is not valid Python: {reason}") from exc
    said = _Said([], [], [], "LOCAL_RANK" in text or "init_process_group" in text)
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            said.imports.extend(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            said.imports.append(node.module.partition(".")[0])
        elif isinstance(node, ast.Call):
            _read_call(node, said)
    return said


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes in the order of the text, without what only a type checker reads."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack.extend(reversed(node.orelse))
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _read_call(call: ast.Call, said: _Said) -> None:
    """Add the options and folders of a call: of argparse, click, os.makedirs, Path(...).mkdir, a Trainer."""
    words = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    said.options.extend(word for word in words if _is_output_option(word))
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name == "HfArgumentParser":
        said.options.append("--output_dir")
    if name in MAKERS and isinstance(call.func, ast.Attribute) and not words:
        made = call.func.value  # Path("results").mkdir()
        words = [
            a.value
            for a in (made.args[:1] if isinstance(made, ast.Call) else [])
            if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
    folders = words[:1] if name in MAKERS else []
    folders += [
        k.value.value
        for k in call.keywords
        if k.arg in KEYWORDS
        and isinstance(k.value, ast.Constant)
        and isinstance(k.value.value, str)
    ]
    said.folders.extend(top for word in folders if (top := get_top_folder(word)))


def _is_output_option(word: str) -> bool:
    match = OPTION.fullmatch(word)
    return match is not None and (
        match[1].lower() not in WITH_DIR or len(match[0]) > len(match[1]) + 2
    )


def _rank(option: str) -> int:
    match = OPTION.fullmatch(option)
    return OUTPUT_WORDS.split().index(match[1].lower()) if match else 0


def get_top_folder(word: str) -> str:
    """Return the first part of a relative path that a program writes; nothing for a path that it rather reads.

    >>> get_top_folder("results/run1"), get_top_folder("./out"), get_top_folder("/tmp/x"), get_top_folder("data")
    ('results', 'out', '', '')
    """
    path = PurePosixPath(word)
    first = path.parts[0] if path.parts and not path.is_absolute() else ""
    is_usual = re.fullmatch(r"[A-Za-z0-9_][\w.+-]*", first, re.ASCII) is not None
    return first if is_usual and first.lower() not in INPUTS else ""


def _list_own_modules(folder: Path) -> dict[str, Path]:
    """Return the modules and packages beside a program, which its imports find first."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return {}
    modules = {e.stem: e for e in entries if e.suffix == ".py" and e.is_file()}
    packages = {e.name: e for e in entries if e.is_dir() and any(e.glob("*.py"))}
    return packages | modules


def _list_files(module: Path) -> list[Path]:
    return sorted(module.rglob("*.py"))[:MOST_MODULES] if module.is_dir() else [module]
