"""Where a job's Python keeps what it compiles: never beside a source of somebody's. Standard library only."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

KEPT = ".pycache"  # of an environment: for all runs that use it


def variables(made: str | None, folder: Path) -> dict[str, str]:
    """Give what tells Python so: in a node's *folder*, or nowhere where the job has no environment that we *made*.

    A Python before 3.8 knows no such folder.

    A Python of the user's is read as it lies, with what he has compiled of it: what we kept of it
    could outlive a change of his. https://docs.python.org/3/using/cmdline.html#envvar-PYTHONPYCACHEPREFIX
    """
    if not made:
        return {"PYTHONDONTWRITEBYTECODE": "1"}
    return {"PYTHONPYCACHEPREFIX": str(folder / KEPT)}


def share(made: str, folder: Path) -> None:
    """Have what is compiled of the libraries of the environment *made* be kept with it, and used by every node.

    An environment never changes, nor do the libraries of the Python that it was made with: its key
    names that one's version. Where nothing can be kept, each node compiles for itself.
    """
    with contextlib.suppress(OSError, ValueError):
        for library in _libraries(Path(made)):
            below = library.relative_to("/")
            kept, link = Path(made, KEPT, below), folder / KEPT / below
            kept.mkdir(parents=True, exist_ok=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():  # a try before this one made it
                link.symlink_to(kept)


def _libraries(made: Path) -> Iterator[Path]:
    """Give the folders below which modules lie: the environment's, and those of its Python. PEP 405"""
    words = (
        line.partition("=")
        for line in (made / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    )
    homes = [Path(value.strip()) for name, _, value in words if name.strip() == "home"]
    own = list(made.glob("lib*/python3*"))
    yield from own
    for home, name in itertools.product(homes, {library.name for library in own}):
        yield from home.parent.glob(f"lib*/{name}")
