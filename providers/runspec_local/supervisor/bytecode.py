"""Where a job's Python writes bytecode: never beside the user's source files. Standard library only."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

KEPT = ".pycache"  # the bytecode of an environment, shared by all runs that use it


def variables(made: str | None, folder: Path) -> dict[str, str]:
    """Return variables that make Python write bytecode to *folder*, or not at all if runspec made no environment.

    A Python before 3.8 knows no such folder.

    A Python of the user's is read as it lies, with what he has compiled of it: what we kept of it
    could outlive a change of his. https://docs.python.org/3/using/cmdline.html#envvar-PYTHONPYCACHEPREFIX
    """
    if not made:
        return {"PYTHONDONTWRITEBYTECODE": "1"}
    return {"PYTHONPYCACHEPREFIX": str(folder / KEPT)}


def share(made: str, folder: Path) -> None:
    """Let all nodes share the bytecode of the libraries of the environment *made*, which is kept in the environment.

    Python writes the bytecode of this node to *folder*, which gets links to the shared one. An environment never
    changes, nor do the libraries of its Python, whose version is in its key. If the environment cannot be written,
    each node compiles for itself.
    """
    with contextlib.suppress(OSError, ValueError):
        for library in _libraries(Path(made)):
            below = library.relative_to("/")
            kept, link = Path(made, KEPT, below), folder / KEPT / below
            kept.mkdir(parents=True, exist_ok=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():  # made by an earlier attempt
                link.symlink_to(kept)


def _libraries(made: Path) -> Iterator[Path]:
    """Yield the folders that contain modules: those of the environment and of its Python. See PEP 405."""
    pairs = (
        line.partition("=")
        for line in (made / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    )
    homes = [Path(value.strip()) for name, _, value in pairs if name.strip() == "home"]
    libraries = list(made.glob("lib*/python3*"))
    yield from libraries
    for home, name in itertools.product(homes, {library.name for library in libraries}):
        yield from home.parent.glob(f"lib*/{name}")
