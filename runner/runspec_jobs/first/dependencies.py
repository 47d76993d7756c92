"""The packages that a program needs: those that its project names, or those that it imports."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple

REQUIREMENTS, PROJECT = "requirements.txt", "pyproject.toml"
# Modules whose package on PyPI has another name.
PACKAGES = {
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "chainermn": "chainer",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "google": "protobuf",
    "igraph": "python-igraph",
    "mpl_toolkits": "matplotlib",
    "pytorch_lightning": "pytorch-lightning",
    "pytorch_metric_learning": "pytorch-metric-learning",
    "sentence_transformers": "sentence-transformers",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "tensorflow_datasets": "tensorflow-datasets",
    "yaml": "pyyaml",
}
# What comes with another package, and is not asked for by itself.
INCLUDED = frozenset({"pkg_resources", "setuptools"})


class Requirements(NamedTuple):
    """What `container.requirements` gets, and the file that says so; no file if the imports do."""

    words: str | list[str]
    source: str = ""


def find_requirements(folder: Path, imports: Iterable[str]) -> Requirements:
    """Return the packages of a program: of `requirements.txt` or `pyproject.toml` in *folder*, or of its *imports*."""
    if (folder / REQUIREMENTS).is_file():
        return Requirements(REQUIREMENTS, REQUIREMENTS)
    named = _read_dependencies(folder / PROJECT)
    if named:
        return Requirements(named, PROJECT)
    return Requirements(sorted({PACKAGES.get(name, name) for name in imports} - INCLUDED))


def _read_dependencies(path: Path) -> list[str]:
    """Return `project.dependencies` of a pyproject.toml; nothing if it has none or cannot be read."""
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return []
    named = project.get("dependencies", []) if isinstance(project, dict) else []
    return [word for word in named if isinstance(word, str)] if isinstance(named, list) else []
