"""Make the files that are sent to jobs: inside.sh, signed.sh, boot.py, and the zipapp of runspec_agent."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

from runspec_jobs.errors import Unavailable

FOLDER = Path(__file__).parents[2] / "runspec_agent"
OLDEST = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can contain
START = "job/zipapp_main.py"  # the main module of the zipapp
EXTENSIONS = "extensions.py"
# The groups of entry points that extend the agent, and the tables of EXTENSIONS that they add to.
GROUPS = {
    "runspec.agent.preemption": "PREEMPTION",
    "runspec.agent.secrets": "SECRETS",
    "runspec.agent.stores": "STORES",
}


def strip_inside_sh() -> str:
    """Return inside.sh without comments and indentation, the form that requests contain."""
    return _strip_script("inside.sh")


def strip_signed() -> str:
    """Return signed.sh without comments and indentation, the form that requests contain."""
    return _strip_script("signed.sh")


def strip_usage() -> str:
    """Return usage.sh without comments and indentation, the form that lists of signed URLs contain."""
    return _strip_script("usage.sh")


def read_inside_sh() -> bytes:
    """Return the file inside.sh unchanged, with its comments."""
    return (FOLDER / "inside.sh").read_bytes()


def signed_scripts() -> tuple[str, str]:
    """Return signed.sh and inside.sh, in the form that requests contain; the second is the `$0` of the first."""
    return strip_signed(), strip_inside_sh()


def _strip_script(name: str) -> str:
    text = (FOLDER / name).read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def strip_boot() -> str:
    """Return boot.py without comments and docstrings and with short indentation, the form that requests contain."""
    text = (FOLDER / "base/boot.py").read_text("utf-8")
    left_out = set(_find_docstrings(ast.parse(text)))
    kept = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.lstrip(" ")
        if number not in left_out and code and not code.startswith("#"):
            # One space for each level of four: requests have limits of size.
            kept.append(" " * ((len(line) - len(code)) // 4) + code + "\n")
    return "".join(kept)


def _find_docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> Iterator[int]:
    """Yield the line numbers of docstrings of *node* and below, except where the docstring is the whole body."""
    first = node.body[0]
    if len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None:
        yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef):
            yield from _find_docstrings(inner)


def pack_agent(distribution: str | None = None) -> bytes:
    """Return the zipapp, with the same bytes on every machine, because plans contain its hash.

    *distribution* is that of a provider with entry points in GROUPS: the stores, preemption watchers and sources of
    secrets that they name are packed as well, each with its whole top-level package or module. Raises Unavailable if
    the distribution or one of these packages is not installed.

    Nothing is compressed, since the results of zlib differ between its builds.
    """
    import zipfile  # slow to import, and most commands pack nothing

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in _members(distribution):
            info = zipfile.ZipInfo(name, OLDEST)
            info.create_system = 3  # Unix, on every platform
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return b"#!/usr/bin/env python3\n" + buffer.getvalue()


def _members(distribution: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the path in the zipapp and the content of each file, in their order."""
    points = list_extensions(distribution) if distribution else []
    more = "".join(f"{table}[{name!r}] = {value!r}\n" for table, name, value in points)
    yield "__main__.py", (FOLDER / START).read_bytes()
    for name, content in _sources(FOLDER):
        if name != START:
            yield f"runspec_agent/{name}", content + more.encode() * (name == EXTENSIONS)
    yield "runspec_agent/inside.sh", strip_inside_sh().encode()
    for package in sorted({value.partition(".")[0].partition(":")[0] for *_, value in points}):
        yield from _package(package)


def list_extensions(distribution: str) -> list[tuple[str, str, str]]:
    """Return the table, the name and the value of each entry point of *distribution* that extends the agent.

    Raises Unavailable if it is not installed.
    """
    from importlib import metadata  # only providers of other distributions need it

    try:
        points = metadata.distribution(distribution).entry_points
    except metadata.PackageNotFoundError as exc:
        raise Unavailable(f"the distribution '{distribution}' is not installed") from exc
    return sorted((GROUPS[p.group], p.name, p.value) for p in points if p.group in GROUPS)


def _package(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each source file of a package or module, which is not imported."""
    from importlib import util  # as above

    spec = util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        for path, content in _sources(Path(spec.submodule_search_locations[0])):
            yield f"{name}/{path}", content
    elif spec is not None and spec.origin and spec.origin.endswith(".py"):
        yield f"{name}.py", Path(spec.origin).read_bytes()
    else:
        raise Unavailable(f"'{name}', which the agent of a provider needs, is not installed")


def _sources(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path below *folder* and the content of each Python file, in the order of paths."""
    # Sorted, because the order of a directory differs between file systems, and the bytes must not.
    for source in sorted(folder.rglob("*.py")):
        yield source.relative_to(folder).as_posix(), source.read_bytes()
