"""A copy of an output for a job that saves elsewhere is whole, or is continued; nothing of it outlives its run."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from runspec_jobs.document import reader
from runspec_jobs.engine.outputs import copies
from runspec_jobs.provider import OutputFile, Spec
from runspec_jobs.spec.needs import RunOutput
from runspec_jobs.spec.validate import parse_spec

TEXT = b"""
apiVersion: runspec/v1
name: a
provider: local
outputs: [{name: data, path: /job/data}]
run: x
"""
FILES = {"one": b"1" * 100, "below/two": b"2" * 200, "three": b"3"}
DATA = RunOutput("a", "data")


class Killed(BaseException):
    """Ends the copy where `kill -9` would."""


class Stored:
    """A store with the files of one output, which kills its reader in the middle of file number *kill_at*."""

    def __init__(self, kill_at: int = 0) -> None:
        self.kill_at = kill_at
        self.opened: list[str] = []

    def outputs(self, run: str) -> Iterator[OutputFile]:
        for path, content in FILES.items():
            digest = hashlib.sha256(content).hexdigest()
            yield OutputFile("data", 0, 0, path, len(content), self._open(path), 1, digest)

    def _open(self, path: str) -> Any:
        def opened() -> BinaryIO:
            self.opened.append(path)
            return Broken() if len(self.opened) == self.kill_at else io.BytesIO(FILES[path])

        return opened


class Broken(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise Killed

    def readinto(self, buffer: Any, /) -> int:
        raise Killed


def spec() -> Spec:
    spec, _ = parse_spec(reader.read(TEXT))
    assert spec is not None
    return spec


def copy(store: Stored) -> Path:
    return copies.copy_output(store, "a-abc234", spec(), DATA, lambda done, whole: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kill_at", range(1, len(FILES) + 1))
def test_a_copy_that_was_killed_is_continued_and_is_whole(kill_at: int) -> None:
    with pytest.raises(Killed):
        copy(Stored(kill_at))
    rest = Stored()

    folder = copy(rest)

    assert {path: (folder / path).read_bytes() for path in FILES} == FILES
    assert len(rest.opened) == len(FILES) - kill_at + 1
    assert not [path for path in folder.rglob("*") if path.name.startswith(copies.UNFINISHED)]


def test_nothing_of_a_copy_that_was_killed_is_left_after_its_run() -> None:
    with pytest.raises(Killed):
        copy(Stored(2))
    whole = copy(Stored())
    with pytest.raises(Killed):
        copies.copy_output(Stored(1), "a-abc235", spec(), DATA, lambda done, whole: None)  # type: ignore[arg-type]

    copies.remove_all("a-abc234")
    copies.remove_all("a-abc235")

    assert list(whole.parent.iterdir()) == []
