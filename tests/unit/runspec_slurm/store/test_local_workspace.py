"""A workspace of this machine is read without a command, and says what the commands would have said."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import RunspecError, State
from runspec_slurm import cleanup, timing
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions
from runspec_slurm.queue import NO_COMMAND
from runspec_slurm.session.process import Done
from runspec_slurm.session.transport import Here
from runspec_slurm.status.workspace_poll import AttemptKey, Seen, WorkspacePoller
from runspec_slurm.store import records
from runspec_slurm.store.records import BatchFetch
from runspec_slurm.store.workspace import Entry, WorkspaceStore
from tests.support.change_records import at, record

pytestmark = pytest.mark.process


class Way(Here):
    """Notes that a command was called; *near* False: files of another machine."""

    def __init__(self, *, near: bool = True) -> None:
        self.near = near
        self.called = 0

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.DEFAULT.command_s,
    ) -> Done:
        self.called += 1
        if "squeue" in script:
            return Done(NO_COMMAND, b"", "sh: squeue: not found")
        return super().run(script, args, content, timeout_s)


FILES = {
    "record.json": "{}",
    "claim": "12",
    "job": "12\n",
    "last": '{"state": "succeeded"}',
    "ends/0/1/0": '{"code": 1,\n"why": null}',
    "ends/0/1/batch": '{"code": 75, "again": true}\n',
    "ends/0/2/told": "[15]",
    "failures/0-0/1-3": '{"code": 3}',
    "stop/3": "",
    "logs/0-0.txt": "a line\nhalf a",
    "logs/10-batch.txt": "",
    "logs/other": "x",
    ".rs-0123456789abcdef.part": "half",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "runs/a-1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def both(workspace: object) -> tuple[WorkspaceStore, WorkspaceStore]:
    """The same workspace, near and by commands."""
    return WorkspaceStore(Way(), str(workspace)), WorkspaceStore(Way(near=False), str(workspace))


def called(store: WorkspaceStore) -> int:
    assert isinstance(store.way, Way)
    return store.way.called


@pytest.mark.parametrize("old_s", [0, 3600])
@pytest.mark.parametrize("gone", [(), ("claim", "last"), ("record.json",)])
def test_reading_locally_sees_what_a_command_sees(
    workspace: Path, gone: Sequence[str], old_s: float
) -> None:
    long_ago = time.time() - old_s
    os.utime(workspace / "runs/a-1/claim", (long_ago, long_ago))
    for name in gone:
        (workspace / "runs/a-1" / name).unlink()
    near, far = both(workspace)

    seen = WorkspacePoller(near).seen("a-1")

    assert seen == WorkspacePoller(far).seen("a-1")
    assert isinstance(seen, Seen) == ("record.json" not in gone)
    assert (called(near), called(far)) == (0, 1)


def test_exit_records_read_locally_equal_those_of_a_command(workspace: Path) -> None:
    near, far = both(workspace)
    wanted = [AttemptKey(0, 1, 0), AttemptKey(0, 1, -1), AttemptKey(5, 1, -1)]

    noted = WorkspacePoller(near).notes("a-1", wanted)

    assert noted == WorkspacePoller(far).notes("a-1", wanted)
    assert AttemptKey(0, 1, -1) in noted
    assert called(near) == 0


@pytest.mark.parametrize("near", [True, False])
def test_a_pipe_is_no_file_and_is_not_waited_for(workspace: Path, near: bool) -> None:
    """A program of a job may have put it in the place of its log or of an output, and nobody writes to it."""
    run = workspace / "runs/a-1"
    for name in ("logs/0-0.txt", "ends/0/1/0", "claim"):
        (run / name).unlink()
        os.mkfifo(run / name)
    store = WorkspaceStore(Way(near=near), str(workspace), timing.Timing(command_s=5.0))
    key, other = "runs/a-1/logs/0-0.txt", "runs/a-1/job"
    poller = WorkspacePoller(store)

    assert [store.read(key), store.size(key), store.part(key, 0, 1)] == [None, None, None]
    assert store.parts([(key, 0, 1), (other, 0, 2)]) is None
    fetch = BatchFetch(store, [Entry(key, 1), Entry(other, 3)])
    assert [fetch.take(key), fetch.take(other)] == [None, b"12\n"]
    assert poller.seen("a-1") is not None
    assert poller.notes("a-1", [AttemptKey(0, 1, 0)]) == {}
    assert store.look("list the runs", cleanup.RUNS, ".rs-a.part") is not None


def test_changes_are_the_same_and_take_one_command(workspace: Path) -> None:
    """Two tasks, ten generations; what else the nodes keep there is not read."""
    others = {
        "elastic/0/state": "{}",
        "elastic/0/nodes/00000-a,1,h": "",
        "elastic/0/progress": "{}",
    }
    half = {"elastic/0/changes/.rs-0123456789abcdef.part": "half"}
    kept = {at(n): record(n).decode() for n in range(1, 11)} | {at(1, 1): record(1).decode()}
    for key, text in (others | half | kept).items():
        path = workspace / "runs/a-1" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    near, far = both(workspace)

    found = records.read_changes(near, "a-1")

    assert [(one.task, one.generation) for one in found] == [
        *((0, n) for n in range(1, 11)),
        (1, 1),
    ]
    assert (found[0].gap_s, found[0].lost_steps) == (1.5, 3)
    assert found == records.read_changes(far, "a-1")
    assert (called(near), called(far)) == (0, 1)


def test_of_very_many_changes_the_last_ones_are_read(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST", 2)
    for n in range(1, 6):
        path = workspace / "runs/a-1" / at(n)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record(n))

    for store in both(workspace):
        assert [one.generation for one in records.read_changes(store, "a-1")] == [4, 5]


def test_a_run_without_changes_has_none(workspace: Path) -> None:
    for store in both(workspace):
        assert records.read_changes(store, "a-1") == records.read_changes(store, "gone-1") == []


@pytest.mark.parametrize(
    "key", ["runs/a-1/logs/0-0.txt", "runs/a-1/nothing", "runs/b/x", "runs/a-1/claim/x"]
)
def test_a_file_is_the_same(workspace: Path, key: str) -> None:
    near, far = both(workspace)

    for do in (
        WorkspaceStore.read,
        WorkspaceStore.size,
        lambda s, k: s.part(k, 2, 7),
        lambda s, k: s.parts([(k, 2, 4)]),
    ):
        assert do(near, key) == do(far, key)

    assert called(near) == 0


@pytest.mark.parametrize("name", ["~", "~/work space"])
def test_a_home_is_that_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    near, far = both(name)

    far.put("runs/a-1/record.json", b"mine")

    assert near.read("runs/a-1/record.json") == b"mine"


def test_errors_of_local_reads_are_left_to_the_command(workspace: Path) -> None:
    """It has the words for it, and the way out."""
    (workspace / "runs/a-1/claim").unlink()
    (workspace / "runs/a-1/claim").symlink_to("claim")
    near, _ = both(workspace)

    assert near.read("runs/a-1/claim") is None
    assert called(near) == 1


@pytest.mark.parametrize("name", ["record.json", "ends"])
def test_an_unreadable_file_does_not_count_as_missing(workspace: Path, name: str) -> None:
    """As where a file server gives no answer: a run would count as gone, or its end be overlooked."""
    place = workspace / "runs/a-1" / name
    place.rename(workspace / "elsewhere")
    place.symlink_to(name)
    near, _ = both(workspace)

    WorkspacePoller(near).seen("a-1")

    assert called(near) == 1


def test_a_slow_poll_is_repeated_soon(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a login node did not answer for a while: the end of a job is seen soon after."""
    now, way = [0.0], Way(near=False)
    store = WorkspaceStore(way, str(workspace), clock=timing.Clock(lambda: now[0]))
    looks, run = WorkspacePoller(store), way.run

    def slow(*words: Any, **more: Any) -> Done:
        now[0] += 60.0
        return run(*words, **more)

    monkeypatch.setattr(way, "run", slow)
    looks.seen("a-1")
    (workspace / "runs/a-1/record.json").unlink()
    now[0] += 5.0

    assert looks.seen("a-1") is None


def ended(workspace: Path, *codes: int) -> SlurmClient:
    """Give the client of an array whose tasks have noted *codes*."""
    way = Way()
    client = SlurmClient(SlurmOptions(workspace=str(workspace)), way)
    notes = {f"ends/{task}/1/batch": {"code": code} for task, code in enumerate(codes)}
    files = {"record.json": {"count": 2, "nodes": 1}, "claim": 7, **notes}
    for name, content in files.items():
        path = workspace / "runs/b-1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return client


def test_recorded_success_of_all_tasks_needs_no_request(tmp_path: Path) -> None:
    """Slurm says it later, when its epilog is over and it is asked next; a success is a task's last word."""
    client = ended(tmp_path, 0, 0)

    status = client.state("b-1")

    assert (status.state, status.exit_code, len(status.nodes)) == (State.SUCCEEDED, 0, 2)
    assert called(client.store) == 0
    client.reconcile("b-1")
    assert called(client.store) == 1, "to write down how it ended"


@pytest.mark.parametrize("codes", [(0,), (0, 3), (0, 75)])
def test_tasks_without_a_record_are_requested_at_the_controller(
    tmp_path: Path, codes: Sequence[int]
) -> None:
    client = ended(tmp_path, *codes)

    with pytest.raises(RunspecError, match="squeue"):
        client.state("b-1")
