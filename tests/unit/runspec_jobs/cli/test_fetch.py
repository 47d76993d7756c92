"""Where the files of a job are put: in the folder that was named, whatever the job calls them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from runspec_jobs.engine import fetch
from runspec_jobs.engine.fetch import place
from runspec_jobs.errors import Conflict, RemoteError, UsageError
from runspec_jobs.provider import OutputFile


def named(path: str, task: int = 0, rank: int = 0) -> OutputFile:
    return OutputFile("model", task, rank, path, 0, io.BytesIO)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "", ".."])
def test_no_file_is_put_outside_of_the_folder(path: str) -> None:
    with pytest.raises(RemoteError, match="leads out of"):
        place(Path("out"), named(path), [])


def test_files_of_tasks_and_nodes_have_folders_of_their_own() -> None:
    files = [named("a"), named("a", task=1, rank=2)]

    found = [place(Path("out"), file, files) for file in files]

    assert found == [Path("out/task-0/model/a"), Path("out/task-1/node-2/model/a")]


class Saving:
    """A client of a run that saves *contents* one after the other: what it saved before is gone when it is asked for.

    It saves anew each time a file is opened, while there is something left.
    """

    def __init__(self, *contents: dict[str, str], keep: int = 1) -> None:
        self.contents, self.keep, self.number = list(contents), keep, 1

    def outputs(self, run: str) -> Sequence[OutputFile]:
        first = max(1, self.number - self.keep + 1)
        return [
            OutputFile(
                "model", 0, 0, name, len(text), partial(self._open, number, name), number,
                hashlib.sha256(text.encode()).hexdigest(), f"{number}-{name}",
            )
            for number in range(first, self.number + 1)
            for name, text in self.contents[number - 1].items()
        ]  # fmt: skip

    def _open(self, number: int, name: str) -> BinaryIO:
        if number <= self.number - self.keep:
            raise Conflict(f"{number}-{name} has been taken away")
        content = self.contents[number - 1][name].encode()
        self.number = min(self.number + 1, len(self.contents))
        return io.BytesIO(content)


def fetched(client: Saving, to: Path, save: int | None = None) -> dict[str, str]:
    fetch.fetch(client, "run", None, save, to, lambda done, whole: None)
    return {path.name: path.read_text() for path in to.rglob("*") if path.is_file()}


def test_a_run_that_saves_meanwhile_gives_one_save(tmp_path: Path) -> None:
    """Files of the save before are replaced, or taken away."""
    saves = [{"a": f"{n}", "b": f"{n}", f"step-{n}": "x"} for n in range(3)]

    assert fetched(Saving(*saves), tmp_path) == {"a": "2", "b": "2", "step-2": "x"}


def test_what_was_there_before_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    found = fetched(Saving({"a": "1", "b": "1"}, {"a": "2"}), tmp_path)

    assert found == {"a": "2", "mine": "mine"}


def test_a_run_that_never_rests_is_told(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="replaces its saves faster than they can be copied"):
        fetched(Saving(*[{"a": f"{n}", "b": f"{n}"} for n in range(100)]), tmp_path)


def test_the_save_that_is_asked_for_is_brought(tmp_path: Path) -> None:
    client = Saving({"a": "1"}, {"a": "2"}, {"a": "3"}, keep=2)
    client.number = 3

    assert fetched(client, tmp_path / "last") == {"a": "3"}
    assert fetched(client, tmp_path / "second", 2) == {"a": "2"}
    with pytest.raises(UsageError, match="has no save number 1") as error:
        fetched(client, tmp_path / "first", 1)
    assert error.value.hint == "saves that exist: 2, 3"


def test_what_is_not_what_was_saved_is_not_brought(tmp_path: Path) -> None:
    client = Saving({"a": "1"})
    (file,) = client.outputs("run")
    client.outputs = lambda run: [file._replace(open=lambda: io.BytesIO(b"other"))]  # type: ignore[method-assign]

    with pytest.raises(RemoteError, match="model/a does not have the SHA-256 of its save"):
        fetched(client, tmp_path)
    assert not list(tmp_path.rglob("a"))


@pytest.mark.parametrize(
    ("in_the_way", "message"),
    [
        ("to", "{}/to is a file, where a folder is needed for a"),
        ("to/model", "{}/to/model is a file, where a folder is needed for a"),
        ("to/model/a/", "{}/to/model/a is a folder, where a file of that name is to be written"),
    ],
)
def test_what_is_in_the_way_of_a_file_is_named(
    in_the_way: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / in_the_way
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if in_the_way.endswith("/") else path.touch()

    with pytest.raises(Conflict) as told:
        fetched(Saving({"a": "1"}), tmp_path / "to")

    assert told.value.message == message.format(tmp_path)
