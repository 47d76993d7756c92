"""What the methods of the client do that hand their work to another module, without an engine or a node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import Request
from runspec_jobs.provider.streams.log_streams import Chunk, TimedChunk
from runspec_local import infrastructure, shell, status
from runspec_local.client import LocalClient
from runspec_local.session import container_engine
from runspec_local.status import FileStream
from runspec_local.supervisor import process, reaper
from runspec_local.timing import Clock

RUN = "job-abc123"
ELASTIC = {
    "format": "runspec.local/v1",
    "run": RUN,
    "engine": "process",
    "grace_s": 1,
    "nodes": 2,
    "tasks": [[]],
    "elastic": {"min": 1},
}


@pytest.fixture
def client(tmp_path: Path) -> LocalClient:
    return LocalClient(str(tmp_path / "local"))


def test_an_environment_is_built_at_its_path(
    client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[Any, ...]] = []
    monkeypatch.setattr(infrastructure, "build_environment", lambda *args: built.append(args[:-1]))
    params = {"path": "/e", "requirements": "six", "build_constraints": "", "interpreter": "py"}

    answer = client.call(Request("local", "build_environment", params))

    assert answer == {"environment": "/e"}
    assert built == [(Path("/e"), "six", "", "py")]


def test_an_image_is_built_with_its_requirements(
    client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[Any, ...]] = []
    monkeypatch.setattr(infrastructure, "build_image", lambda *args: built.append(args[:5]))
    params = {
        "engine": "podman",
        "image": "made:1",
        "base": "python:3.12",
        "requirements": "six",
        "build_constraints": "",
    }

    answer = client.call(Request("local", "build_image", params))

    assert answer == {"environment": "made:1"}
    assert built == [("podman", "made:1", "python:3.12", "six", "")]


def test_an_image_is_got_with_a_login_before_anything_else_has_run_here(
    client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[str, ...]] = []

    def engine(*words: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        called.append(words)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(container_engine, "engine", engine)
    login = {"registry": "r.io", "user": "me", "password": "p"}
    params = {"engine": "podman", "image": "r.io/a:1", "login": login}

    assert client.call(Request("local", "pull_image", params)) == {"image": "r.io/a:1"}
    assert [words[-1] for words in called] == ["r.io/a:1"]


def test_a_shell_and_a_tunnel_lead_to_a_node_of_the_run(
    client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shell, "shell", lambda folder, at, words, *_, **__: (folder.name, at, words)
    )
    monkeypatch.setattr(shell, "tunnel", lambda folder, at, port: (folder.name, at, port))

    opened: tuple[Any, Any] = (
        client.shell(RUN, 0, 1, ["ls"], terminal=False),
        client.tunnel(RUN, 0, 1, 8888),
    )

    assert opened == ((RUN, (0, 1), ["ls"]), (RUN, (0, 1), 8888))


def test_a_log_is_read_with_its_times(client: LocalClient, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = TimedChunk(Chunk(b"a line\n", "7"), ())
    monkeypatch.setattr(FileStream, "timed", lambda self, position: chunk)

    assert client.read_timed(object.__new__(FileStream), None) == chunk


@pytest.fixture
def supervised(client: LocalClient, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A run whose supervisor is alive until it gets SIGTERM; the signals that it got."""
    signals: list[int] = []
    folder = client.root / "runs" / RUN
    folder.mkdir(parents=True)
    monkeypatch.setattr(status, "supervisor", lambda folder: {"pid": 7, "start": 1})
    monkeypatch.setattr(process, "alive", lambda who: signal.SIGTERM not in signals)
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append(number))
    monkeypatch.setattr(process, "end_all", lambda run, grace_s: signals.append(0))
    monkeypatch.setattr(reaper, "settle", lambda folder: None)
    monkeypatch.setattr(container_engine, "containers_of", lambda engine, run: [])
    return signals


def test_stop_notes_the_tasks_and_wakes_the_supervisor(
    client: LocalClient, supervised: list[int]
) -> None:
    client.stop(RUN, [3])

    assert supervised == [signal.SIGHUP]
    assert (client.root / "runs" / RUN / "stop" / "3").exists()


def test_a_run_is_removed_when_its_supervisor_has_ended(
    client: LocalClient, supervised: list[int]
) -> None:
    folder = client.root / "runs" / RUN

    client.call(Request("local", "remove_run", {"run": RUN, "folder": str(folder)}))

    assert supervised == [signal.SIGTERM, 0]  # first the supervisor, then what is left
    assert not folder.exists()


def test_a_supervisor_that_does_not_end_is_killed(
    client: LocalClient, supervised: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "alive", lambda who: signal.SIGKILL not in supervised)
    now = iter(range(0, 10_000, 5))
    client.clock = Clock(monotonic=lambda: float(next(now)), sleep=lambda seconds: None)
    folder = client.root / "runs" / RUN

    client.call(Request("local", "remove_run", {"run": RUN, "folder": str(folder)}))

    assert supervised == [signal.SIGTERM, signal.SIGKILL, 0]


def test_find_orphans_names_a_run_without_a_record(client: LocalClient) -> None:
    (client.root / "runs" / RUN).mkdir(parents=True)

    orphans = [orphan.run for orphan in client.find_orphans([], [])]

    assert orphans == [RUN]


def test_a_released_node_is_noted_in_the_folder_of_its_run(client: LocalClient) -> None:
    folder = Path(client.root) / "runs" / RUN
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(ELASTIC))

    released = client.release(RUN, [(0, 1)], [], lambda _: ())

    assert set(released.away) == {(0, 1)}
    assert (folder / "released" / "1").exists()
