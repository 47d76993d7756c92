"""What is saved in a workspace gets its plain names, whatever they are made of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runspec_jobs.provider import RemoteError
from runspec_slurm.session.transport import transport
from runspec_slurm.store.outputs import publish
from runspec_slurm.store.workspace import WorkspaceStore
from tests.support.saved_folder import plain, save

NAMES = [
    "a b",
    "line\nend",
    "deep/'quoted' $HOME `x`",
    "-rf",
    "byte\udcff",
    "new\\n",
    "old/now-a-file",
]


@pytest.fixture
def store(tmp_path: Path) -> WorkspaceStore:
    return WorkspaceStore(transport(None, ()), str(tmp_path))


@pytest.mark.process
def test_every_name_is_linked_and_what_the_save_lacks_goes(
    store: WorkspaceStore, tmp_path: Path
) -> None:
    top = tmp_path / "runs/r/outputs/model/0/0"
    save(top, 1, [*NAMES, *(f"many/{n}" for n in range(50))])
    assert publish(store, "r") == []
    first = plain(top)
    save(top, 2, ["old", "line\nend"])

    assert publish(store, "r") == []

    every = [*NAMES, *(f"many/{n}" for n in range(50))]
    assert first == {name: os.fsencode(name) for name in every}
    assert plain(top) == {"old": b"old", "line\nend": b"line\nend"}
    assert (top / "old").stat().st_nlink == 2
    assert json.loads((top / ".runspec/published").read_bytes())["save"] == 2


@pytest.mark.process
def test_no_note_is_written_where_an_object_is_missing(
    store: WorkspaceStore, tmp_path: Path
) -> None:
    top = tmp_path / "runs/r/outputs/model/0/0"
    save(top, 1, ["a", "b"])
    (top / ".runspec/objects/1-1").unlink()

    with pytest.raises(RemoteError, match="link the files saved"):
        publish(store, "r")

    assert json.loads((top / ".runspec/published").read_bytes())["save"] == 0  # it is not done
    assert [path.name for path in top.iterdir() if path.name.startswith(".rs-")] == []
