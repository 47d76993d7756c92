"""Reads chains: several job specs in one file, or in the files of one folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.document import reader
from runspec_jobs.document.nodes import Map
from runspec_jobs.errors import UsageError
from runspec_jobs.load import source
from runspec_jobs.load.source import SourceFile
from runspec_jobs.regex import regex
from runspec_jobs.spec.chain_rules import wrong_chain
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.types import NAME, compiled

# A line that begins so is never part of a scalar: https://yaml.org/spec/1.2.2/#rule-c-forbidden
MARKER = regex(rb"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
CONTENT = regex(rb"^[ \t]*[^#\s%]", re.MULTILINE)
JOB = regex(
    rb"""^[ \t{]*["']?apiVersion["']?[ \t]*:""", re.MULTILINE
)  # in a text with a syntax error
ENDINGS = (".yaml", ".yml")
MOST_JOBS = 200


class ChainFile(NamedTuple):
    """The jobs of a chain: their texts, in the order of the file or of the names of the files of a folder."""

    name: str
    path: Path
    texts: tuple[SourceFile, ...]

    @property
    def base(self) -> Path:
        """The folder to which paths in the jobs refer."""
        return self.path if self.path.is_dir() else self.path.parent


def is_chain(path: Path) -> bool:
    """Return whether *path* is a folder, or a file with several documents. False if it cannot be read."""
    if path.is_dir():
        return True
    try:
        return path.is_file() and len(documents(source.read_head(path, reader.TEXT_BYTES))) > 1
    except OSError:
        return False


def read_chain(path: Path) -> ChainFile:
    """Return the jobs of the file or folder at *path*, parsed, with their syntax errors.

    Raises UsageError if it cannot be read, or has no jobs.
    """
    texts = tuple(_texts_of_folder(path) if path.is_dir() else read_documents(path))
    if not texts:
        raise UsageError(f"{path} has no job specs", "job files end in .yaml and have `apiVersion`")
    if len(texts) > MOST_JOBS:
        raise UsageError(f"{path} has {len(texts)} jobs, and a chain has at most {MOST_JOBS}")
    return ChainFile(chain_name(path), path, texts)


def chain_name(path: Path) -> str:
    """Return the name of the chain at *path*: that of the file or folder, in the letters of a job's name.

    >>> chain_name(Path("jobs/Train_All.v2.yaml"))
    'train-all-v2'
    """
    plain = path.resolve().name if path.is_dir() else path.stem
    name = re.sub("[^a-z0-9]+", "-", plain.lower()).strip("-")[:40].strip("-")
    return name if compiled(NAME).fullmatch(name) else f"chain-{name}"[:40].strip("-")


def _texts_of_folder(path: Path) -> Iterator[SourceFile]:
    try:
        files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and file.is_file())
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
    for file in files:
        # A profile, data and files of other tools may lie beside the jobs.
        yield from filter(_is_job, read_documents(file))


def _is_job(text: SourceFile) -> bool:
    if text.document is None:
        return JOB.search(text.data) is not None
    value = text.document.value
    return isinstance(value, Map) and "apiVersion" in value


def read_documents(path: Path) -> list[SourceFile]:
    """Return the documents of a file, each parsed on its own, with positions in the whole file."""
    whole = source.read_file(path)
    parts = documents(whole.data)
    if len(parts) < 2:
        return [whole]
    return [_document(str(path), whole.data, start, end) for start, end in parts]


def documents(data: bytes) -> list[tuple[int, int]]:
    """Return where each document of *data* begins and ends, in bytes; what has only comments is none.

    >>> documents(b"a: 1\\n---\\n# end\\n---\\nb: 2\\n")
    [(0, 5), (18, 24)]
    """
    places = [match.span() for match in MARKER.finditer(data)]
    starts = [0, *(end for _, end in places)]
    ends = [*(start for start, _ in places), len(data)]
    return [
        (start, end)
        for start, end in zip(starts, ends, strict=True)
        if CONTENT.search(data[start:end])
    ]


def _document(name: str, data: bytes, start: int, end: int) -> SourceFile:
    """Return the document of *data* between two places; comments stand for the lines before it."""
    before = data[:start].count(b"\n")
    column = start - (data.rfind(b"\n", 0, start) + 1)
    text = source.read(name, b"#\n" * before + b" " * column + data[start:end])
    text.changed = data[start:end].lstrip(b"\r\n")
    return text


def complain_of_one(text: SourceFile, spec: Spec) -> None:
    """Add the problems of a job that is alone in its file, and needs others."""
    text.add_problems(problem for _, problem in wrong_chain([spec], ""))


def complain_of_chain(file: ChainFile, specs: Sequence[Spec]) -> None:
    """Add the problems between the jobs of a chain to their texts; *specs* are those of its texts, in order."""
    for number, problem in wrong_chain(specs, file.name):
        file.texts[number].add_problems([problem])
