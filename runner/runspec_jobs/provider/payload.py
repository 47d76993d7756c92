"""Make the files that are sent to jobs: inside.sh, signed.sh, boot.py, and the zipapp of runspec_agent."""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "runspec_agent"
OLDEST = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can contain
START = "job/zipapp_main.py"  # the main module of the zipapp


def inside_sh() -> str:
    """Return inside.sh without comments and indentation, the form that requests contain."""
    return _strip_script("inside.sh")


def strip_signed() -> str:
    """Return signed.sh without comments and indentation, the form that requests contain."""
    return _strip_script("signed.sh")


def strip_usage() -> str:
    """Return usage.sh without comments and indentation, the form that lists of signed URLs contain."""
    return _strip_script("usage.sh")


def inside_sh_file() -> bytes:
    """Return the file inside.sh unchanged, with its comments."""
    return (FOLDER / "inside.sh").read_bytes()


def signed_scripts() -> tuple[str, str]:
    """Return signed.sh and inside.sh, in the form that requests contain; the second is the `$0` of the first."""
    return strip_signed(), inside_sh()


def _strip_script(name: str) -> str:
    text = (FOLDER / name).read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def boot_py() -> str:
    """Return boot.py without comments and docstrings and with short indentation, the form that requests contain."""
    text = (FOLDER / "base/boot.py").read_text("utf-8")
    left_out = set(_find_docstrings(ast.parse(text)))
    kept = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.lstrip(" ")
        if number not in left_out and code and not code.startswith("#"):
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


def zipapp_bytes() -> bytes:
    """Return the zipapp, with the same bytes on every machine, because plans contain its hash.

    Nothing is compressed, since the results of zlib differ between its builds.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", (FOLDER / START).read_bytes())
        for source in sorted(FOLDER.rglob("*.py")):
            name = source.relative_to(FOLDER).as_posix()
            if name != START:
                _add(archive, f"runspec_agent/{name}", source.read_bytes())
        _add(archive, "runspec_agent/inside.sh", inside_sh().encode())
    return b"#!/usr/bin/env python3\n" + buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, OLDEST)
    info.create_system = 3  # Unix, on every platform
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)
