"""Folders for Batch AI, a blob for each file: whole, as they were hashed, and never all in memory."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import obstore
import pytest
from obstore.store import MemoryStore

from runspec_batchai import store as stores
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.store import BLOCK_BYTES, Store
from runspec_jobs.load.bundle import FolderBundle, bundle
from runspec_jobs.provider import Conflict, File

LARGE = 3 * BLOCK_BYTES + 7


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """What stands in for the container; every file above 100 bytes is a large one."""
    monkeypatch.setattr(stores, "SMALL_BYTES", 100)
    return MemoryStore()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    for n in range(40):
        (tmp_path / "below" / f"small-{n}").write_bytes(b"%d" % n)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "large").write_bytes(os.urandom(LARGE))
    return tmp_path


def put(memory: MemoryStore, content: Any) -> list[int]:
    """Put *content* below `x/`; give what was told of it."""
    known = Store(BatchAiOptions(storage_account="acct", container="jobs"))
    known.blobs.__dict__["native"] = memory
    told: list[int] = []
    known.put_folder("x/", content, lambda done, whole: told.append(done))
    return told


def there(memory: MemoryStore) -> dict[str, bytes]:
    found = [entry["path"] for page in obstore.list(memory) for entry in page]
    return {path: bytes(obstore.get(memory, path).bytes()) for path in found}


def test_every_file_of_a_folder_is_a_blob_with_its_bytes(memory: MemoryStore, folder: Path) -> None:
    told = put(memory, bundle(folder))

    files = [path for path in folder.rglob("*") if path.is_file()]
    expected = {f"x/{path.relative_to(folder)}": path.read_bytes() for path in files}
    assert there(memory) == {**expected, "x.whole": b""}
    assert told == sorted(told) and told[-1] == sum(map(len, expected.values()))


@pytest.mark.parametrize("name", ["large", "below/small-7"])
def test_a_file_that_changed_after_hashing_is_not_uploaded(
    name: str, memory: MemoryStore, folder: Path
) -> None:
    content = bundle(folder)
    data = bytearray((folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)

    with pytest.raises(Conflict, match="changed while it was uploaded"):
        put(memory, content)

    assert not {f"x/{name}", "x.whole"} & there(memory).keys()


@dataclass
class Metered:
    """A bundle that notes how much is read at once."""

    bundle: FolderBundle
    asked: list[int] = field(default_factory=list)

    @property
    def files(self) -> tuple[File, ...]:
        return self.bundle.files

    def open(self, file: File) -> BinaryIO:
        with self.bundle.open(file) as opened:
            return Reader(opened.read(), self.asked)


class Reader(io.BytesIO):
    def __init__(self, content: bytes, asked: list[int]) -> None:
        super().__init__(content)
        self.asked = asked

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.asked.append(len(data))
        return data


def test_a_large_file_is_never_in_memory_at_once(memory: MemoryStore, folder: Path) -> None:
    content = Metered(bundle(folder))

    put(memory, content)

    assert max(content.asked) == BLOCK_BYTES
