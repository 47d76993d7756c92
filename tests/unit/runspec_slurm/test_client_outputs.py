"""What jobs wrote comes back whole, and many files by few commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from runspec_slurm import timing
from runspec_slurm.session.process import Done
from runspec_slurm.session.transport import Here, Ssh, Transport
from runspec_slurm.store import outputs
from runspec_slurm.store.records import AT_ONCE_BYTES
from runspec_slurm.store.workspace import WorkspaceStore
from tests.support.saved_outputs import manifest_of
from tests.support.slurm.login_node import login

pytestmark = pytest.mark.process

RUN, TASKS, FILES = "job-a1", 20, 25


class Counted(Here):
    """Counts commands."""

    def __init__(self, way: Transport | None = None) -> None:
        self.way, self.asked = way or Here(), 0

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.DEFAULT.command_s,
    ) -> Done:
        self.asked += 1
        return self.way.run(script, args, content, timeout_s)


def saved(folder: Path, files: dict[str, bytes], task: int = 0) -> None:
    """Save *files* as a node does: they, and then a manifest of them."""
    base = folder / f"runs/{RUN}/outputs/out/{task}/0"
    for name, content in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(content)
    (base / ".runspec").mkdir()
    (base / ".runspec/manifest.json").write_bytes(manifest_of(files))


def many(folder: Path, tasks: int = TASKS) -> dict[tuple[int, str], bytes]:
    for task in range(tasks):
        names = [f"a/{number} of {task}" for number in range(FILES)]
        saved(folder, {name: (name * 50).encode() for name in names}, task)
    wanted = [(t, f"a/{number} of {t}") for t in range(tasks) for number in range(FILES)]
    return {(task, name): (name * 50).encode() for task, name in wanted}


def fetched(way: Transport, folder: Path) -> dict[tuple[int, str], bytes]:
    found = {}
    for file in outputs.list_outputs(WorkspaceStore(way, str(folder)), RUN):
        with file.open() as stream:
            found[file.task, file.path] = stream.read()
    return found


def test_many_files_of_many_tasks_come_by_three_commands(tmp_path: Path) -> None:
    """The list, all manifests, all files."""
    way, expected = Counted(), many(tmp_path)

    assert fetched(way, tmp_path) == expected
    assert way.asked == 3


@pytest.mark.slow
def test_many_files_come_over_ssh_by_as_few(tmp_path: Path) -> None:
    place, expected = tmp_path / "w", many(tmp_path / "w")
    (tmp_path / "login").mkdir()
    with login(tmp_path / "login") as node:
        way = Counted(Ssh("127.0.0.1", node.options))

        assert fetched(way, place) == expected
        assert (way.asked, node.connections) == (3, 1)


def test_large_files_and_odd_names_come_whole_between_small_ones(tmp_path: Path) -> None:
    large = os.urandom(AT_ONCE_BYTES + 1)
    files = {
        "a": b"1",
        "b": large,
        "c": b"",
        "d\\e 'f\"": b"2",
        "g": large[1:],
        "h|i": b"3",
        "z": b"4",
    }
    saved(tmp_path, files)
    (tmp_path / f"runs/{RUN}/outputs/tar/0/0").mkdir(parents=True)

    assert fetched(Here(), tmp_path) == {(0, name): data for name, data in files.items()}


def test_a_file_with_a_wrong_digest_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest is not that of what the login node read, as of a file that was being written."""
    expected = many(tmp_path / "w", 2)
    (tmp_path / "tar").write_text("#!/bin/sh\nPATH=${PATH#*:}; tar \"$@\" | sed 's/of 1a/of 0a/'\n")
    (tmp_path / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert fetched(Here(), tmp_path / "w") == expected


def test_a_cluster_without_tar_gives_files_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = many(tmp_path / "w", 2)
    (tmp_path / "tar").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert fetched(Here(), tmp_path / "w") == expected
