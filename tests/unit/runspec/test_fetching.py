"""Where the files of a job are put: in the folder that was named, whatever the job calls them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from runspec.cli.fetching import place
from runspec.errors import RemoteError
from runspec.provider import OutputFile


def named(path: str, task: int = 0, rank: int = 0) -> OutputFile:
    return OutputFile("model", task, rank, path, 0, io.BytesIO)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "", ".."])
def test_no_file_is_put_outside_of_the_folder(path: str) -> None:
    with pytest.raises(RemoteError, match="would leave"):
        place(Path("out"), named(path), [])


def test_files_of_tasks_and_nodes_have_folders_of_their_own() -> None:
    files = [named("a"), named("a", task=1, rank=2)]

    found = [place(Path("out"), file, files) for file in files]

    assert found == [Path("out/task-0/model/a"), Path("out/task-1/node-2/model/a")]
