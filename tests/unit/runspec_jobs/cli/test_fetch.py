"""Where the files of a job are put: in the folder that was named, whatever the job calls them."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from runspec_jobs import api
from runspec_jobs.cli.app import run
from runspec_jobs.engine.outputs import fetch
from runspec_jobs.engine.outputs.layout import PLAIN, Layout, choose_path
from runspec_jobs.errors import Conflict, FileFailed, RemoteError, UsageError
from runspec_jobs.provider import OutputFile
from runspec_jobs.provider.saved_outputs import read_saved_outputs
from runspec_jobs.state import atomic_io


def named(path: str, task: int = 0, rank: int = 0) -> OutputFile:
    return OutputFile("model", task, rank, path, 0, io.BytesIO)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "", ".."])
def test_no_file_is_put_outside_of_the_folder(path: str) -> None:
    with pytest.raises(RemoteError, match="leads out of"):
        choose_path(Path("out"), named(path), PLAIN)


@pytest.mark.parametrize(
    ("layout", "found"),
    [
        (PLAIN, ["model/a", "model/a"]),
        (Layout(several_tasks=True), ["task-0/model/a", "task-1/model/a"]),
        (Layout(several_nodes=True), ["node-0/model/a", "node-2/model/a"]),
        (Layout(True, False, frozenset({"model"})), ["model/a", "model/a"]),
        (Layout(True, True), ["task-0/node-0/model/a", "task-1/node-2/model/a"]),
    ],
)
def test_the_shape_of_the_run_decides_where_files_are(layout: Layout, found: list[str]) -> None:
    """And not which of its tasks and nodes have saved so far."""
    files = [named("a"), named("a", task=1, rank=2)]

    assert [str(choose_path(Path("out"), file, layout)) for file in files] == [
        f"out/{f}" for f in found
    ]


def test_no_name_of_an_output_leads_into_the_folder_of_a_node() -> None:
    layout = Layout(several_nodes=True, of_first=frozenset({"node-1"}))
    other = OutputFile("node-1", 0, 0, "model/a", 0, io.BytesIO)

    assert choose_path(Path("out"), other, layout) == Path("out/node-0/node-1/model/a")
    assert choose_path(Path("out"), named("a", rank=1), layout) == Path("out/node-1/model/a")


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 5000, "/".join("x" * 3000)])
def test_a_name_that_no_file_can_have_is_told_in_words(path: str, tmp_path: Path) -> None:
    file = OutputFile("model", 0, 0, path, 0, io.BytesIO)
    client = Saving({"a": "1"})
    client.outputs = lambda run: [file]  # type: ignore[method-assign]

    with pytest.raises((RemoteError, FileFailed)) as error:
        fetched(client, tmp_path)

    assert len(error.value.message) < 12_000


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


def test_fetch_leaves_other_files_alone(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("text", [b"2", b"", b"11", b"1" * 5_000_000])
def test_fetch_refuses_content_that_differs_from_the_save(tmp_path: Path, text: bytes) -> None:
    client = Saving({"a": "1"})
    (file,) = client.outputs("run")
    client.outputs = lambda run: [file._replace(open=lambda: io.BytesIO(text))]  # type: ignore[method-assign]

    with pytest.raises(RemoteError, match=r"does not have the SHA-256|has not the 1 bytes"):
        fetched(client, tmp_path)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


@pytest.mark.parametrize(
    ("in_the_way", "message"),
    [
        ("to", "{}/to is a file, where a folder is needed for a"),
        ("to/model", "{}/to/model is a file, where a folder is needed for a"),
        ("to/model/a/", "{}/to/model/a is a folder, where a file of that name is to be written"),
    ],
)
def test_fetch_names_the_path_that_is_in_the_way(
    in_the_way: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / in_the_way
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if in_the_way.endswith("/") else path.touch()

    with pytest.raises(Conflict) as told:
        fetched(Saving({"a": "1"}), tmp_path / "to")

    assert told.value.message == message.format(tmp_path)


def one(path: str, content: bytes = b"", **more: Any) -> OutputFile:
    sha256 = hashlib.sha256(content).hexdigest()
    opens = partial(io.BytesIO, content)
    return OutputFile("o", 0, 0, path, len(content), opens, sha256=sha256, key=path, **more)


def brought(files: Sequence[OutputFile], to: Path) -> Path:
    client = Saving({"a": "1"})
    client.outputs = lambda run: files  # type: ignore[method-assign]
    fetch.fetch(client, "run", None, None, to, lambda done, whole: None)
    return to / "o"


TREE = (
    one("step-20/step", b"20", mode=0o600, mtime_ns=10**18),
    one("tool", b"#!", mode=0o755, mtime_ns=2 * 10**18 + 7),
    one("newest", b"20", target="step-20/step"),
    one("step-20", kind="folder", mode=0o555, mtime_ns=3 * 10**18),
    one("empty", kind="folder", mode=0o700, mtime_ns=4 * 10**18),
    one("latest", kind="link", target="step-20", mtime_ns=5 * 10**18),
    one("step-20/up", kind="link", target="/empty", mtime_ns=6 * 10**18),
    one("data", kind="lost", target="a link to /data"),
)


@pytest.mark.parametrize("times", [1, 2])
def test_an_output_is_fetched_as_it_was_written(tmp_path: Path, times: int) -> None:
    """With modes, times, links and empty folders; and once more into the same folder."""
    outs = [brought(TREE, tmp_path) for _ in range(times)]

    out = outs[-1]
    found = {str(p.relative_to(out)): p.lstat() for p in out.rglob("*")}
    assert {n: f.st_mtime_ns // 10**18 for n, f in found.items() if n != "newest"} == {
        "step-20/step": 1, "tool": 2, "step-20": 3, "empty": 4, "latest": 5, "step-20/up": 6,
    }  # fmt: skip
    modes = {n: stat.S_IMODE(f.st_mode) for n, f in found.items() if not stat.S_ISLNK(f.st_mode)}
    assert modes == {"step-20/step": 0o600, "tool": 0o755, "step-20": 0o555, "empty": 0o700}
    ends = {n: os.readlink(out / n) for n, f in found.items() if stat.S_ISLNK(f.st_mode)}
    assert ends == {"newest": "step-20/step", "latest": "step-20", "step-20/up": "../empty"}


def test_a_link_that_leads_elsewhere_by_now_is_replaced_and_not_followed(tmp_path: Path) -> None:
    brought(TREE, tmp_path)
    newer = [one("step-30/step", b"30"), one("latest", kind="link", target="step-30", mtime_ns=1)]

    out = brought(newer, tmp_path)

    assert os.readlink(out / "latest") == "step-30"
    with pytest.raises(Conflict, match="latest is a link, where a folder is needed for step"):
        brought([one("latest/step", b"40")], tmp_path)
    assert (out / "step-30/step").read_text() == "30"


@pytest.mark.parametrize("names", [("a", ".a.new"), (".a.new", "a"), ("a", "a.part", ".a.part")])
def test_a_file_may_have_any_name_beside_another(tmp_path: Path, names: tuple[str, ...]) -> None:
    out = brought([one(name, name.encode()) for name in names], tmp_path)

    assert {path.name: path.read_text() for path in out.iterdir()} == {n: n for n in names}


def test_two_that_fetch_into_one_folder_tear_no_file(tmp_path: Path) -> None:
    """The second one writes the whole file, or a half of it and is killed, while the first one writes."""
    content = b"x" * 3_000_000

    class Other(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() == 1 << 20:
                brought([one("big", content)], tmp_path)
                other = open_half(tmp_path / "o/big")
                other.close()
            return super().read(size)

    def open_half(path: Path) -> BinaryIO:
        context = atomic_io.replace_atomically(path)
        half = context.__enter__()
        half.write(b"half")
        left.append(context)
        return half

    left: list[Any] = []
    out = brought([one("big", content)._replace(open=lambda: Other(content))], tmp_path)

    assert (out / "big").read_bytes() == content


def test_a_pipe_in_the_way_is_named(tmp_path: Path) -> None:
    """It is not opened, which would wait for a reader."""
    (tmp_path / "o").mkdir()
    os.mkfifo(tmp_path / "o/a")

    with pytest.raises(Conflict, match="is a pipe, a socket or a device"):
        brought([one("a", b"a")], tmp_path)


def test_a_save_that_is_one_tar_is_fetched_whole(tmp_path: Path) -> None:
    """As of a job with signed URLs: folders, links and pipes in it have no content that could be opened."""
    tree, tar = tmp_path / "tree", io.BytesIO()
    (tree / "step").mkdir(parents=True)
    (tree / "empty").mkdir()
    (tree / "step/weights").write_text("1")
    (tree / "same").hardlink_to(tree / "step/weights")
    (tree / "newest").symlink_to("step/weights")
    (tree / "latest").symlink_to("step")
    (tree / "broken").symlink_to("step/gone")
    (tree / "out").symlink_to("/etc/passwd")
    os.mkfifo(tree / "pipe")
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.add(tree, ".")
    saved = tar.getvalue()
    keys = [("p/o/0/0/.runspec/output.tar", len(saved))]
    files = read_saved_outputs("p/", keys, lambda _, start, end: io.BytesIO(saved[start:end]))

    out = brought(files, tmp_path / "to")

    assert {str(path.relative_to(out)) for path in out.rglob("*")} == {
        "step", "step/weights", "same", "empty", "newest", "latest", "broken",
    }  # fmt: skip
    links = {path.name: os.readlink(path) for path in out.iterdir() if path.is_symlink()}
    assert links == {"newest": "step/weights", "latest": "step", "broken": "step/gone"}
    assert [(out / name).read_text() for name in ("step/weights", "same")] == ["1", "1"]


SEARCH = {
    "apiVersion": "runspec/v1",
    "name": "search",
    "provider": "local",
    "sweep": {"lr": [3, 1]},
    "metric": {"name": "loss", "goal": "min", "pattern": "loss ([0-9]+)"},
    "outputs": [{"name": "model", "path": "/job/model", "keep": "last 2"}],
    "run": 'mkdir "${outputs.model}/deep"; for f in a.pt deep/b.pt c.txt; '
    'do echo ${sweep.lr} > "${outputs.model}/$f"; done; echo loss ${sweep.lr}',
    "providers": {"local": {"engine": "process"}},
}


@pytest.mark.process
def test_fetch_copies_the_files_of_the_best_task_that_match_a_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = api.apply(api.load(SEARCH), detach=False)

    def copied(*options: str) -> list[str]:
        folder = tmp_path / "-".join(options).replace("/", "")
        assert run(["fetch", "search", str(folder), *options]) == 0, capsys.readouterr().err
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())

    assert copied("--best", "--path", "*.pt") == ["task-1/model/a.pt", "task-1/model/deep/b.pt"]
    assert copied("--task", "0", "--path", "model/c*") == ["task-0/model/c.txt"]
    assert run(["fetch", "search", str(tmp_path / "x"), "--path", "*.onnx"]) == 2
    assert "has saved no file that matches '*.onnx'" in capsys.readouterr().err
    assert run(["fetch", "search", "--best", "--task", "1"]) == 2
    assert run(["outputs", "search", "--best", "--path", "deep/*"]) == 0
    told = capsys.readouterr()
    assert [line.split()[-1] for line in told.out.splitlines()] == ["path", "deep/b.pt"]
    assert told.err.endswith(f"1 file (2 bytes): runspec fetch {made.id} copies them\n")


def test_outputs_lists_the_files_of_each_save_without_reading_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    older = named("a.pt")._replace(save=1, newest=False, bytes=5_000, saved_s=1_700_000_000)
    newer = older._replace(save=2, newest=True, open=refuse)
    monkeypatch.setattr("runspec_jobs.cli.fetch.get", lambda name, on_event: Listed([older, newer]))

    assert run(["outputs", "job"]) == 0

    told = capsys.readouterr()
    rows = [line.split("  ") for line in told.out.splitlines()]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["output", "save", "saved", "bytes", "changed", "path"],
        ["model", "1 (older)", time.strftime(FORM, time.localtime(1.7e9)), "5,000", "-", "a.pt"],
        ["model", "2", time.strftime(FORM, time.localtime(1.7e9)), "5,000", "-", "a.pt"],
    ]
    assert "1 file (5,000 bytes) in the newest saves, 2 files in all" in told.err


FORM = "%Y-%m-%d %H:%M:%S"


def refuse() -> BinaryIO:
    raise AssertionError("it is read")


class Listed:
    """A run that has saved *files*."""

    id, shape = "job-7k2m9p", (1, 1)

    def __init__(self, files: Sequence[OutputFile]) -> None:
        self.files = files

    def outputs(self, **_: Any) -> Sequence[OutputFile]:
        return self.files
