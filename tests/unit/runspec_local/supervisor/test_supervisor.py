"""The supervisor listens whatever it does, ends what it started, and runs nothing that was taken away."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import NoAnswer, RemoteError, Request, Scope, State, Step
from runspec_local.client import BOOTSTRAP, SOURCES, LocalClient
from runspec_local.supervisor import process, reaper, supervision
from runspec_local.supervisor.child import start_child
from runspec_local.timing import Timing
from tests.support import process_table
from tests.support.wait import until

pytestmark = pytest.mark.process

RUN = f"r-{os.getpid():06}"  # processes of a run are looked for on the whole machine


def job(run: str, folder: Path, argv: list[str]) -> dict[str, Any]:
    """Give what starts a run of one process."""
    return {
        "run": run,
        "folder": str(folder),
        "engine": "process",
        "environment": None,
        "argv": argv,
        "tasks": [{}],
        "max_parallel": 1,
        "nodes": 1,
        "slots": 1,
        "launch": "none",
        "mounts": [],
        "outputs": [],
        "env": {},
        "secrets": {},
        "container": None,
        "attempts": 1,
        "timeout_s": None,
        "grace_s": 1,
    }


class World:
    """One run below a root of its own."""

    def __init__(self, root: Path) -> None:
        self.client = LocalClient(str(root))
        self.folder = root / "runs" / RUN

    def start(self, script: str, **more: Any) -> None:
        wanted = job(RUN, self.folder, ["/bin/sh", "-c", script])
        self.client.call(Request("local", "start", {**wanted, **more}))

    @property
    def state(self) -> State:
        return self.client.state(RUN).state

    @property
    def states(self) -> list[State]:
        return [node.state for node in self.client.state(RUN).nodes]

    def remove(self) -> None:
        what = {"run": RUN, "folder": str(self.folder)}
        self.client.call(Request("local", "remove_run", what))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "local")
    yield world
    world.remove()


def test_a_run_is_its_owners_alone(world: World, tmp_path: Path) -> None:
    """But not what the job makes: its umask is its own."""
    world.start(f"umask > {tmp_path}/umask")
    until(lambda: world.state is State.SUCCEEDED)

    names = ("inside.sh", "runspec_inside.pyz", "supervisor.log", "logs/0-0.log", "job.json")
    modes = {f"{world.folder.joinpath(name).stat().st_mode & 0o777:o}" for name in names}
    assert modes == {"600"}
    assert f"{world.client.root.stat().st_mode & 0o777:o}" == "700"
    mask = os.umask(0)
    os.umask(mask)
    assert int((tmp_path / "umask").read_text(), 8) == mask


def test_a_program_below_a_shell_saves_after_cancel(world: World) -> None:
    """The shell itself ends at once, because it waits for the program in the foreground."""
    saving = """trap 'sleep 0.7; echo kept > "$RUNSPEC_OUTPUT_O/x"; exit' TERM; echo on; sleep 60 & wait"""
    outputs = [{"name": "o", "path": "/job/o", "sync_s": None}]
    words = ["/bin/sh", "-c", 'sh -c "$0"; echo after', saving]
    world.start("", argv=words, outputs=outputs, grace_s=10)
    until(lambda: any(stream.read(None).data for stream in world.client.streams(RUN)))

    world.client.cancel(RUN)
    until(lambda: world.state.terminal)

    assert [file.path for file in world.client.outputs(RUN)] == ["x"]


def test_an_output_has_the_files_that_its_patterns_name(world: World) -> None:
    patterns = {"include": ["*.pt"], "exclude": ["old*"]}
    outputs = [{"name": "o", "path": "/job/o", "sync_s": None, **patterns}]

    world.start('cd "$RUNSPEC_OUTPUT_O"; touch new.pt old.pt log.txt', outputs=outputs)
    until(lambda: world.state is State.SUCCEEDED)

    assert [file.path for file in world.client.outputs(RUN)] == ["new.pt"]


def test_background_processes_end_with_their_node(world: World, tmp_path: Path) -> None:
    world.start(f"sleep 600 & echo $! > {tmp_path}/pid")

    until(lambda: world.state is State.SUCCEEDED)

    left = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    until(lambda: not left.exists() or b") Z" in left.read_bytes())


def test_nobody_is_signalled_by_the_number_of_a_child_that_was_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull, "wb") as log:
        child = start_child(["/bin/sh", "-c", "exit 3"], {}, tmp_path, log)
    until(lambda: child.ended)
    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(number))

    code = child.reap()
    child.send(15)

    assert (code, sent, child.ended) == (3, [9], True)


def test_the_supervisor_listens_while_it_saves(world: World, tmp_path: Path) -> None:
    """Another task is cancelled meanwhile, and what the first wrote is kept."""
    outputs = [{"name": "out", "path": "/out", "sync_s": 600}]
    first = f"until [ -e {tmp_path}/go ]; do sleep .01; done; echo > $RUNSPEC_OUTPUT_OUT/a"
    script = f"if [ $RUNSPEC_TASK = 0 ]; then {first}; else sleep 600; fi"
    world.start(script, tasks=[{}, {}], max_parallel=2, outputs=outputs)
    until(lambda: len(saver(world.folder)) == 1)
    os.kill(saver(world.folder)[0], signal.SIGSTOP)
    (tmp_path / "go").touch()
    until(lambda: world.states[0] is State.SUCCEEDED)

    world.client.cancel(RUN)
    until(lambda: world.states == [State.SUCCEEDED, State.CANCELLED])
    assert not world.state.terminal
    os.kill(saver(world.folder)[0], signal.SIGCONT)
    until(lambda: world.state.terminal)

    assert world.state is State.CANCELLED
    assert [file.path for file in world.client.outputs(RUN)] == ["a"]


def test_a_killed_saver_is_started_again(world: World, tmp_path: Path) -> None:
    """For want of memory, say; not without end, and the last save is made in any case."""
    outputs = [{"name": "out", "path": "/out", "sync_s": 0.1}]
    script = (
        f"until [ -e {tmp_path}/go ]; do sleep .01; done; echo > $RUNSPEC_OUTPUT_OUT/a; sleep 600"
    )
    world.start(script, outputs=outputs)
    killed: set[int] = set()
    for _ in range(3):
        until(lambda: bool(set(saver(world.folder)) - killed))
        (pid,) = set(saver(world.folder)) - killed
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)

    (tmp_path / "go").touch()
    until(lambda: [file.path for file in world.client.outputs(RUN)] == ["a"])

    for _ in range(20):
        for pid in set(saver(world.folder)) - killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.1)
    assert not set(saver(world.folder)) - killed and len(killed) == 11
    world.client.cancel(RUN)
    until(lambda: world.state.terminal)
    assert [file.path for file in world.client.outputs(RUN)] == ["a"]


def saver(folder: Path) -> list[int]:
    """Give the process that saves the output of the first task."""
    target = str(folder / "outputs/out/0/0").encode()
    return [pid for pid, words in process_table.words() if target in words.split(b"\0")]


def test_starting_a_run_after_a_killed_one_leaves_the_callers_own_children_alone(
    world: World,
) -> None:
    """The parent of a killed supervisor ends its children; any other process keeps its own, and their exit codes."""
    killed = world.folder.with_name("r-killed")
    killed.mkdir(parents=True)
    (killed / "job.json").write_text(json.dumps(job(killed.name, killed, [])))
    (killed / "started.json").write_text(json.dumps({**process.identity(), "ticks": 1}))
    ended = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)

    with subprocess.Popen(["sleep", "600"]) as own:
        world.start("exit 0")
        left = own.poll()
        own.kill()

    assert (left, ended.wait()) == (None, 3)


def test_a_run_that_was_taken_away_is_not_begun(world: World, tmp_path: Path) -> None:
    """Its supervisor was still starting."""
    world.folder.mkdir(parents=True)
    line = [sys.executable, "-I", "-S", "-c", BOOTSTRAP, *SOURCES, str(world.folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    late = subprocess.Popen(line, start_new_session=True, **pipes)  # type: ignore[call-overload]  # of a dict of pipes

    world.remove()
    answer, _ = late.communicate(b"{}")

    assert answer == b""
    assert late.returncode != 0, "it found no folder, or was told to end"
    assert not world.folder.exists()


def test_a_folder_that_was_made_anew_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()

    def replaced(lock: int) -> bool:
        folder.rename(tmp_path / "gone")
        folder.mkdir()
        return True

    monkeypatch.setattr(supervision, "locked", replaced)

    with pytest.raises(FileNotFoundError, match="was deleted"):
        supervision.claim(folder)
    assert list(folder.iterdir()) == []


def test_a_run_is_not_taken_away_under_a_supervisor_that_claims_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.client, "timing", Timing(leave_s=0.1))
    world.folder.mkdir(parents=True)
    with open(world.folder / "supervisor.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(NoAnswer, match="the supervisor of the run does not end"):
            world.remove()

    assert (world.folder / "cancel").exists()


def test_an_engine_that_hangs_is_told(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look is refused; of a call nobody knows; the supervisor goes on."""
    hangs = tmp_path / "podman"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    real = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda words, **how: real(words, **{**how, "timeout": 0.1})
    )
    request = Request("local", "pull_image", {"engine": str(hangs), "image": "i:1"})

    with pytest.raises(NoAnswer, match="no answer in"):
        world.client.call(request)
    with pytest.raises(RemoteError, match="no answer in"):
        world.client.find(Step("image", "get it", Scope.SITE, request))


def test_cancel_reports_a_refusal_of_the_file_system(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.folder.mkdir(parents=True)

    def touch(path: Path, mode: int = 0o666) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "touch", touch)
        with pytest.raises(RemoteError, match="read-only"):
            world.client.cancel(RUN)


@pytest.mark.slow
def test_nodes_that_come_and_go_are_started_again_until_too_few_are_left(
    world: World, tmp_path: Path
) -> None:
    """Each by itself, as often as `spot_attempts` says; what a lost one has left is ended first."""
    script = (
        f'exec 9>>{tmp_path}/pids; echo "$RUNSPEC_INDEX $PPID" >&9; setsid sleep 600 9>&- & wait'
    )
    bounds = {"min": 2, "max": 3}
    world.start(script, nodes=3, elastic=bounds, spot_attempts=2)

    def agents() -> list[int]:
        """Give the agents of the generation that runs, and of those before it."""
        text = (tmp_path / "pids").read_text() if (tmp_path / "pids").exists() else ""
        return [int(line.split()[1]) for line in text.splitlines()]

    until(lambda: len(set(agents())) == 3)
    known = set(agents())
    os.kill(min(known), signal.SIGKILL)
    until(lambda: len(set(agents())) == 4)  # it came back
    again = (set(agents()) - known).pop()
    for pid in (again, *sorted(known)[1:2]):
        os.kill(pid, signal.SIGKILL)  # one for good, the other for the first time
    until(lambda: len(set(agents())) == 5 and world.state is State.RUNNING)
    os.kill((set(agents()) - known - {again}).pop(), signal.SIGKILL)

    until(lambda: world.state is State.FAILED)

    assert "fewer than 2 nodes are left" in world.client.state(RUN).reason
    assert [node.attempt for node in world.client.state(RUN).nodes].count(2) == 2
    until(lambda: not list(process.belonging(RUN)))  # what was killed is gone soon


def test_nodes_that_wait_for_one_that_has_failed_for_good_do_not_wait_for_ever(
    world: World, tmp_path: Path
) -> None:
    """It was not lost, so it is not started again: and without it there are too few."""
    world.start(
        f"echo $PPID >>{tmp_path}/pids; sleep 600",
        nodes=2,
        elastic={"min": 2, "max": 2},
        spot_attempts=3,
    )

    def agents() -> list[str]:
        return (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []

    until(lambda: len(set(agents())) == 2)
    (world.folder / "elastic/0/state").write_text("no state")  # a node that starts ends with 2
    os.kill(int(agents()[0]), signal.SIGKILL)

    until(lambda: world.state is State.FAILED)

    assert "fewer than 2 nodes are left" in world.client.state(RUN).reason


# Single tasks


def test_a_task_that_is_stopped_before_it_begins_never_does(world: World, tmp_path: Path) -> None:
    go = tmp_path / "go"
    world.start(f"echo $RUNSPEC_TASK; until [ -e {go} ]; do sleep 0.02; done", tasks=[{}] * 4)
    until(lambda: world.states == [State.RUNNING])

    world.client.stop(RUN, {2, 1})
    until(lambda: len(world.states) == 3)
    go.touch()
    until(lambda: world.client.state(RUN).state.terminal)

    found = world.client.state(RUN)
    assert (found.state, found.exit_code, found.reason) == (
        State.SUCCEEDED,
        0,
        "2 tasks were stopped",
    )
    assert [node.state for node in found.nodes] == [
        State.SUCCEEDED,
        State.CANCELLED,
        State.CANCELLED,
        State.SUCCEEDED,
    ]
    assert sorted(path.name for path in (world.folder / "logs").glob("*.log")) == [
        "0-0.log",
        "3-0.log",
    ]


def test_a_task_that_is_stopped_is_not_tried_again_and_its_outputs_are_kept(world: World) -> None:
    script = """trap 'echo kept > "$RUNSPEC_OUTPUT_O/x"; exit 3' TERM; echo on; sleep 60 & wait"""
    outputs = [{"name": "o", "path": "/job/o", "sync_s": None}]
    world.start(script, tasks=[{}, {}], max_parallel=2, attempts=3, outputs=outputs)
    until(lambda: len(world.client.streams(RUN)) == 2)
    until(lambda: all(stream.read(None).data for stream in world.client.streams(RUN)))

    world.client.stop(RUN, {0})
    until(lambda: State.CANCELLED in world.states)
    assert world.states == [State.CANCELLED, State.RUNNING]
    until(lambda: world.client.outputs(RUN))
    world.client.stop(RUN, {0, 1})
    until(lambda: world.client.state(RUN).state.terminal)

    found = world.client.state(RUN)
    assert (found.state, [node.attempt for node in found.nodes]) == (State.CANCELLED, [1, 1])
    assert [(file.task, file.path) for file in world.client.outputs(RUN)] == [(0, "x"), (1, "x")]


def test_a_task_that_fails_by_itself_fails_the_run_though_others_were_stopped(
    world: World, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    world.start(f"until [ -e {go} ]; do sleep 0.02; done; exit 7", tasks=[{}] * 2, max_parallel=1)
    until(lambda: world.states == [State.RUNNING])

    world.client.stop(RUN, {1})
    go.touch()
    until(lambda: world.client.state(RUN).state.terminal)

    found = world.client.state(RUN)
    assert (found.state, found.exit_code) == (State.FAILED, 7)


def test_a_run_whose_identity_is_damaged_has_the_state_of_its_events(world: World) -> None:
    world.start("true")
    until(lambda: world.state is State.SUCCEEDED)
    path = world.folder / "started.json"
    good = path.read_bytes()

    for content in (b"", b"null", b"{}"):
        path.write_bytes(content)
        assert world.state is State.SUCCEEDED
    path.unlink()

    assert world.state is State.SUCCEEDED
    path.write_bytes(good)


def test_a_full_disk_at_the_start_of_a_node_is_told_with_its_place_and_a_way_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write to an open file names none: the node's folder stands for it."""
    full = (
        "import sys, errno, os; sys.path[:0] = sys.argv[1:3]\n"
        "from runspec_local.supervisor.node import Node\n"
        "def prepare(self, secrets): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "Node.prepare = prepare\n"
    )
    monkeypatch.setattr("runspec_local.client.BOOTSTRAP", full + BOOTSTRAP)

    world.start("true")
    until(lambda: world.state is State.FAILED)

    reason = world.client.state(RUN).reason
    assert f"cannot start: {world.folder}" in reason
    assert reason.endswith(
        ": no space left on device; free some space, or set RUNSPEC_HOME to a folder on another disk"
    )


def test_a_supervisor_that_crashes_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    """A node's group ends with it in any case; here it is what left the group that must end, too."""
    world.start(f"setsid sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; sleep 600' & wait")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    left = int((tmp_path / "pid").read_text())
    (world.folder / "stop").touch()  # a file where the supervisor reads a folder
    os.kill(json.loads((world.folder / "started.json").read_bytes())["pid"], signal.SIGHUP)

    until(lambda: world.state.terminal)
    until(lambda: process.start_ticks(left) is None)


HIDDEN = "env -i PATH=$PATH setsid -f sh -c 'trap \"\" TERM; echo $$ > {pid}; sleep 600 & wait; sleep 600'"


def await_end(world: World) -> None:
    """Wait until a run and its supervisor have ended."""
    until(lambda: world.state.terminal)
    supervisor = json.loads((world.folder / "started.json").read_bytes())["pid"]
    until(lambda: process.start_ticks(supervisor) is None)


@pytest.mark.parametrize(
    ("rest", "verb"),
    [("sleep 600", "cancel"), ("sleep 600", "destroy"), ("true", "destroy")],
    ids=["cancel", "destroy", "destroy after its end"],
)
def test_a_process_in_a_session_of_its_own_without_our_variables_ends_with_its_run(
    world: World, tmp_path: Path, rest: str, verb: str
) -> None:
    """Though it ignores SIGTERM, and its parents have ended."""
    pid = tmp_path / "pid"
    world.start(f"{HIDDEN.format(pid=pid)}; until [ -s {pid} ]; do sleep .01; done; {rest}")
    until(lambda: pid.exists() and bool(pid.read_text()))
    if rest == "true":
        await_end(world)

    if verb == "cancel":
        world.client.cancel(RUN)
    else:
        world.remove()

    until(lambda: process.start_ticks(int(pid.read_text())) is None)
    until(lambda: str(world.folder).encode() not in b" ".join(w for _, w in process_table.words()))


def test_a_process_that_a_job_leaves_ends_with_the_job(world: World, tmp_path: Path) -> None:
    """As on every service, though it left its session and cleared its environment."""
    pid = tmp_path / "pid"
    world.start(f"{HIDDEN.format(pid=pid)}; until [ -s {pid} ]; do sleep .01; done")
    until(lambda: world.state is State.SUCCEEDED)

    until(lambda: process.start_ticks(int(pid.read_text())) is None)


def test_a_second_supervisor_that_dies_ends_nothing_of_the_first(world: World) -> None:
    world.start("sleep 600")
    until(lambda: world.states == [State.RUNNING])
    started = world.folder / "started.json"
    aside = started.rename(started.with_name("aside"))  # the second waits for it
    line = [sys.executable, "-I", "-S", "-c", BOOTSTRAP, *SOURCES, str(world.folder)]
    second = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert second.stdin is not None
    second.stdin.write(b"{}")
    second.stdin.close()
    until(lambda: children(second.pid))
    (child,) = children(second.pid)
    os.kill(child, signal.SIGKILL)
    second.wait()
    aside.rename(started)
    assert world.states == [State.RUNNING]


def test_the_parent_of_a_supervisor_holds_its_lock_before_there_is_a_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a supervisor that is killed at once could be settled while its parent has not begun to end what it left."""
    free: list[bool] = []

    def fork() -> int:
        with open(tmp_path / "reaper.lock", "rb") as lock:
            free.append(process.locked(lock.fileno()))
        raise InterruptedError

    monkeypatch.setattr(process, "adopt_orphans", lambda: None)
    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path)])

    with pytest.raises(InterruptedError):
        reaper.main()

    assert free == [False]


def children(pid: int) -> list[int]:
    """Give the children of a process. proc(5)"""
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_log_that_was_taken_away_since_it_was_listed_has_nothing_more(world: World) -> None:
    world.start("echo hi")
    until(lambda: world.state.terminal)
    (stream,) = world.client.streams(RUN)
    chunk = stream.read(None)

    world.remove()

    assert stream.read(chunk.position)[:2] == (b"", chunk.position)


MANY = 300  # takes a second or more to start


@pytest.mark.parametrize(
    ("script", "cancelled", "state"),
    [
        ("sleep 600", True, State.CANCELLED),
        ('[ "$RUNSPEC_RANK" != 1 ] || exit 3; sleep 600', False, State.FAILED),
    ],
)
def test_many_nodes_that_are_being_started_are_reaped_and_can_be_cancelled(
    world: World, script: str, cancelled: bool, state: State
) -> None:
    """The nodes that are left are not started first."""
    world.start(script, nodes=MANY)
    until(lambda: len(world.states) > 1)
    if cancelled:
        world.client.cancel(RUN)

    until(lambda: world.state.terminal)

    found = world.client.state(RUN)
    assert (found.state, len(found.nodes) < MANY) == (state, True), len(found.nodes)
    assert "node 1 exited with code 3" in found.reason or cancelled
