"""What each method of the client does to a workspace and asks of Slurm, whose commands note what they are asked."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from runspec_jobs.provider import (
    File,
    MembershipChange,
    NodeStatus,
    Request,
    Scope,
    State,
    Status,
    Step,
    Unavailable,
)
from runspec_jobs.provider.types import Forward
from runspec_slurm import queue, shell, timing
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions
from runspec_slurm.session.transport import Ssh
from runspec_slurm.store.workspace import WorkspaceStore
from tests.support.requirements import need

pytestmark = pytest.mark.process
RUN = "job-a1"
ROWS = "7|N/A|RUNNING|None|0|0|1|10|NONE|node1|{workspace}|job-a1|"


class OneFile:
    """A folder with one file."""

    digest = "sha256:1"
    files = (File("a.txt", 5, False, "unused"),)

    def open(self, file: File) -> BinaryIO:
        return io.BytesIO(b"hello")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmClient:
    """A client of a workspace with one run, whose job 7 the queue shows as running until it is cancelled."""
    workspace = tmp_path / "workspace"
    (tmp_path / "bin").mkdir()
    row = ROWS.format(workspace=workspace).replace("|", queue.BETWEEN)
    commands = {
        "squeue": f"[ -e {tmp_path}/cancelled ] || echo '{row}'",
        "scancel": f'echo "$@" >>{tmp_path}/asked; case "$*" in *signal*) ;; *) touch {tmp_path}/cancelled ;; esac',
        "sacct": "exit 1",
        "scontrol": "exit 1",
    }
    for name, text in commands.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    quick = timing.Timing(notes_s=0.0, first_pause_s=0.01)
    found = SlurmClient(SlurmOptions(workspace=str(workspace), grace=1), timing=quick)
    found.store.put(f"runs/{RUN}/record.json", record())
    found.store.put(f"runs/{RUN}/claim", b"7")
    return found


def record(**fields: object) -> bytes:
    slurm = {"array": False}
    return json.dumps(
        {"count": 1, "nodes": 1, "sweep": [], "shape": "single", "slurm": slurm, **fields}
    ).encode()


def step(request: Request) -> Step:
    return Step("x", "x", Scope.RUN, request, None)


def test_call_writes_a_file_to_the_workspace(client: SlurmClient) -> None:
    answer = client.call(Request("folder", "put", {"key": "inside/x", "content": "x"}))

    assert answer == {"key": "inside/x"}
    assert client.store.read("inside/x") == b"x"


def test_stage_writes_a_folder_to_the_workspace(client: SlurmClient) -> None:
    answer = client.stage(
        Request("folder", "put_folder", {"key": "blobs/1"}), OneFile(), lambda done, whole: None
    )

    assert answer == {"key": "blobs/1"}
    assert client.store.size("blobs/1") is not None


def test_find_returns_a_file_that_is_there_and_no_other(client: SlurmClient) -> None:
    client.store.put("inside/x", b"x")

    there, other = (
        client.find(step(Request("folder", "put", {"key": key}))) for key in ("inside/x", "y")
    )

    assert (there, other) == ({"key": "inside/x"}, None)


def test_a_file_has_settled(client: SlurmClient) -> None:
    assert client.settled(step(Request("folder", "put", {"key": "x"})))


def test_the_poll_interval_is_that_of_the_connection(client: SlurmClient) -> None:
    assert client.poll_s == client.way.look_s


def test_cancel_ends_the_job_and_claims_its_run(client: SlurmClient, tmp_path: Path) -> None:
    client.cancel(RUN)

    assert "7" in (tmp_path / "asked").read_text().split()
    assert client.store.read(f"runs/{RUN}/claim") == b"cancelled"


def test_stop_ends_the_tasks_that_are_named(client: SlurmClient, tmp_path: Path) -> None:
    client.stop(RUN, [0])

    assert (tmp_path / "asked").exists()
    assert client.store.size(f"runs/{RUN}/stop/0") is not None


def test_changes_are_read_from_the_workspace(client: SlurmClient) -> None:
    change = MembershipChange(0, 1, 5.0, 0, 2, "began", None, None)._asdict()
    client.store.put(f"runs/{RUN}/record.json", record(elastic={"min": 1, "max": 2}))
    client.store.put(f"runs/{RUN}/elastic/0/changes/1", json.dumps(change).encode())

    assert [one.nodes for one in client.changes(RUN)] == [2]


def test_the_state_of_a_run_is_kept_and_read_and_its_run_listed(client: SlurmClient) -> None:
    client.keep_state(RUN, b"{}")

    assert client.kept_state(RUN) == b"{}"
    assert list(client.kept_runs()) == [RUN]


def test_the_log_of_a_node_is_read(client: SlurmClient) -> None:
    client.store.put(f"runs/{RUN}/logs/0-0.txt", b"hello\n")

    chunk = client.read_timed(client.streams(RUN)[0], None)
    after = client.streams(RUN)[0].read(None)

    assert chunk.chunk.position is not None
    assert after.data == b"hello\n"


def test_outputs_are_listed_and_published(client: SlurmClient) -> None:
    base = f"runs/{RUN}/outputs/o/0/0"
    file = {"path": "a.txt", "size": 3, "mtime_ns": 5, "sha256": "", "object": "x-1"}
    save = {"number": 1, "at": 5, "files": [file]}
    manifest = {"format": "runspec.outputs/v2", "holder": "x", "saves": [save]}
    client.store.put(f"{base}/.runspec/objects/x-1", b"abc")
    client.store.put(f"{base}/.runspec/manifest.json", json.dumps(manifest).encode())

    listed = client.outputs(RUN)
    client.publish(RUN)

    assert [(one.path, one.bytes) for one in listed] == [("a.txt", 3)]
    assert client.store.read(f"{base}/a.txt") == b"abc"


def test_places_name_the_folders_of_the_run(client: SlurmClient) -> None:
    places = client.places(RUN)

    assert places.logs == f"{client.options.workspace}/runs/{RUN}/logs"
    assert places.outputs == f"{client.options.workspace}/runs/{RUN}/outputs"


def test_usage_of_a_node_is_read_from_the_workspace(client: SlurmClient) -> None:
    client.store.put(f"runs/{RUN}/usage/0/1/0", b"{}")

    assert client.usage(RUN, None).total == 1


@pytest.mark.parametrize(
    "enter",
    [
        lambda client: client.shell(RUN, 0, 0, ["ls"], terminal=False).argv,
        lambda client: client.tunnel(RUN, 0, 0, 8888),
    ],
    ids=["shell", "tunnel"],
)
def test_a_shell_and_a_tunnel_lead_to_a_node_that_runs(
    enter: Callable[[SlurmClient], object], client: SlurmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = shell.Node(RUN, 0, 0, "7", "node1", "10.0.0.1")
    monkeypatch.setattr(shell, "node", lambda *_: node)

    assert enter(client)


def test_a_node_that_has_ended_cannot_be_entered(
    client: SlurmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm lists its job for some time after its program has ended."""
    node = shell.Node(RUN, 0, 0, "7", "node1", "10.0.0.1")
    ended = NodeStatus(0, 0, 1, State.SUCCEEDED, "", 0)
    monkeypatch.setattr(shell, "node", lambda *_: node)
    monkeypatch.setattr(client, "state", lambda run: Status(State.RUNNING, "", None, (ended,)))

    with pytest.raises(Unavailable, match="is not running"):
        client.shell(RUN, 0, 0, [], terminal=False)


def test_ssh_takes_the_command_line_of_a_tunnel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ssh refuses -N beside a type of session of its own."""
    need("ssh")
    monkeypatch.setattr(shell, "find_address", lambda *_: "10.0.0.1")
    store = WorkspaceStore(Ssh("login", ()), "/workspace")

    route = shell.tunnel(store, shell.Node(RUN, 0, 0, "7", "node1", "10.0.0.1"), "python3", 8888)

    assert isinstance(route, Forward)
    words = [word.replace("{socket}", str(tmp_path / "socket")) for word in route.argv]
    read = subprocess.run([words[0], "-G", *words[1:]], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_a_released_node_is_noted_in_the_workspace(client: SlurmClient, tmp_path: Path) -> None:
    (tmp_path / "bin" / "scontrol").write_text("#!/bin/sh\n")
    elastic = {"min": 1, "max": 2}
    client.store.put(f"runs/{RUN}/record.json", record(count=2, nodes=2, elastic=elastic))

    released = client.release(RUN, [(0, 0)], [], lambda _: ())

    assert set(released.away) == {(0, 0)}
    assert client.store.read(f"runs/{RUN}/released/0") == b""


def test_a_node_that_is_held_without_a_record_is_away(client: SlurmClient, tmp_path: Path) -> None:
    """A command was killed after it had deleted the record, maybe on another machine."""
    squeue = tmp_path / "bin" / "squeue"
    squeue.write_text(
        squeue.read_text().replace("RUNNING", "PENDING").replace("None", "JobHeldUser")
    )
    elastic = {"min": 1, "max": 2}
    client.store.put(f"runs/{RUN}/record.json", record(count=2, nodes=2, elastic=elastic))

    released = client.release(RUN, (), (), lambda _: ())

    assert set(released.away) == {(0, 0)}
