"""Logs and outputs come out of the workspace byte for byte, by few commands, and without the controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from runspec_jobs.provider import Conflict
from runspec_slurm import logs as streams, timing
from runspec_slurm.logs import Logs
from runspec_slurm.session.process import Done
from runspec_slurm.session.transport import Here
from runspec_slurm.status.workspace_poll import WorkspacePoller
from runspec_slurm.store.outputs import list_outputs
from runspec_slurm.store.workspace import WorkspaceStore
from tests.support.saved_outputs import manifest_of

pytestmark = pytest.mark.process


class Counted(Here):
    """Counts commands; what was seen is old at once."""

    look_s = 0.0

    def __init__(self, *, near: bool) -> None:
        self.count, self.near = 0, near

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.DEFAULT.command_s,
    ) -> Done:
        self.count += 1
        return super().run(script, args, content, timeout_s)


@pytest.fixture(params=[True, False], ids=["near", "by commands"])
def way(request: pytest.FixtureRequest) -> Counted:
    return Counted(near=request.param)


@pytest.fixture
def store(tmp_path: Path, way: Counted) -> WorkspaceStore:
    found = WorkspaceStore(way, str(tmp_path), timing.Timing(look_share=0))
    found.put("runs/a/record.json", b"{}", beside="runs/a/logs")
    return found


def logs(store: WorkspaceStore) -> Logs:
    return Logs(store, WorkspacePoller(store))


def put(store: WorkspaceStore, task: int, content: bytes, rank: object = 0) -> None:
    store.put(f"runs/a/logs/{task}-{rank}.txt", content)


def test_a_job_that_has_not_opened_its_log_has_no_stream(store: WorkspaceStore) -> None:
    assert logs(store).streams("a") == []
    assert logs(store).streams("nobody") == []


def test_streams_are_of_nodes_in_their_order(store: WorkspaceStore) -> None:
    for task, rank in ((10, 0), (2, 1), (2, 0), (2, "batch")):
        put(store, task, b"x", rank)

    assert [(s.task, s.rank) for s in logs(store).streams("a")] == [(2, 0), (2, 1), (10, 0)]


def test_equal_positions_give_equal_bytes_whoever_asks(
    store: WorkspaceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CHUNK_BYTES", 4)
    monkeypatch.setattr(streams, "AT_ONCE_BYTES", 6)
    put(store, 0, bytes(range(10)))
    put(store, 1, b"other")
    (one, _), (two, _) = logs(store).streams("a"), logs(store).streams("a")

    found, position = [], None
    while (chunk := one.read(position)).data:
        assert chunk == two.read(position) == one.read(position)
        found.append(chunk.data)
        position = chunk.position

    assert found == [bytes(range(4)), bytes(range(4, 8)), bytes(range(8, 10))]


def test_a_log_is_read_on_from_its_position(store: WorkspaceStore) -> None:
    put(store, 0, b"one\n")
    (stream,) = logs(store).streams("a")
    first = stream.read(None)
    nothing = stream.read(first.position)
    put(store, 0, b"one\ntwo\n")

    assert (first.data, nothing.data) == (b"one\n", b"")
    assert stream.read(nothing.position).data == b"two\n"


def test_a_hundred_logs_are_read_by_few_commands(
    store: WorkspaceStore, way: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in range(100):
        (Path(store.workspace) / f"runs/a/logs/{task}-0.txt").write_text(f"task {task}\n")
    monkeypatch.setattr(way, "look_s", 60.0)
    found, way.count = logs(store), 0

    read = [stream.read(None).data.decode() for stream in found.streams("a")]

    assert read == [f"task {task}\n" for task in range(100)]
    assert way.count == (0 if way.near else 2), "one looks, and one fetches all"


def test_outputs_are_those_of_manifests_and_come_back_byte_for_byte(store: WorkspaceStore) -> None:
    content = bytes(range(256)) * 70_000  # more than is read at once
    files = {"deep/a b.bin": content, "empty": b""}
    store.put("runs/a/outputs/model/2/1/deep/a b.bin", content)
    store.put("runs/a/outputs/model/2/1/empty", b"")
    store.put("runs/a/outputs/model/2/1/half", b"in no manifest")
    store.put("runs/a/outputs/model/2/1/.runspec/manifest.json", manifest_of(files))

    found = list_outputs(store, "a")

    assert [(f.output, f.task, f.rank, f.path, f.bytes) for f in found] == [
        ("model", 2, 1, "deep/a b.bin", len(content)),
        ("model", 2, 1, "empty", 0),
    ]
    with found[0].open() as opened, found[1].open() as other:
        assert (opened.read(), other.read()) == (content, b"")


def test_an_output_that_is_taken_away_meanwhile_is_told(store: WorkspaceStore) -> None:
    store.put("runs/a/outputs/model/0/0/x", b"1")
    store.put("runs/a/outputs/model/0/0/.runspec/manifest.json", manifest_of({"x": b"1"}))
    (found,) = list_outputs(store, "a")
    store.remove("runs/a/outputs/model/0/0/x")

    with found.open() as opened, pytest.raises(Conflict, match="deleted meanwhile"):
        opened.read()
