"""Ways into a node: what an engine is told, and what leads to a port where the image has no Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import Unavailable
from runspec_jobs.provider.types import Address, ExecSpec, StdioProxy
from runspec_local import shell
from runspec_local.supervisor import process

JOB = {"run": "job-000001", "engine": "podman", "nodes": 2, "secrets": ["TOKEN"], "grace_s": 1}
HERE = (0, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose second node runs in its third try; this process is its supervisor."""
    folder = tmp_path / "job-000001"
    folder.mkdir()
    events = [
        {"event": "node", "task": 0, "rank": 1, "attempt": 2, "state": "failed"},
        {"event": "node", "task": 0, "rank": 1, "attempt": 3, "state": "running"},
        {"event": "node", "task": 0, "rank": 0, "attempt": 3, "state": "succeeded"},
    ]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in events))
    (folder / "job.json").write_text(json.dumps(JOB))
    (folder / "started.json").write_text(json.dumps(process.identity()))
    return folder


def saying(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[tuple[str, ...]]:
    """Have the engine answer with *answers*; give what it was asked."""
    asked: list[tuple[str, ...]] = []
    left = iter(answers)

    def engine(*words: str, **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, next(left), "")

    monkeypatch.setattr(shell, "engine", engine)
    return asked


def test_a_terminal_and_its_name_go_along_and_the_words_stay_words(folder: Path) -> None:
    caller = {"TERM": "xterm", "HOME": "/root"}

    found = shell.shell(folder, HERE, ["ls", "-l; id"], caller, terminal=True)

    assert found.argv[:6] == ("podman", "exec", "--interactive", "--tty", "--env", "TERM")
    assert found.argv[6:] == (
        "job-000001-0-1-3",
        *("/bin/sh", "-c", 'exec "$@"', "/bin/sh", "ls", "-l; id"),
    )
    assert found.env is None


def test_shell_without_a_terminal_requests_none(folder: Path) -> None:
    found = shell.shell(folder, HERE, [], {"TERM": "xterm"}, terminal=False)

    assert found.argv[:4] == ("podman", "exec", "--interactive", "job-000001-0-1-3")


def test_a_port_of_a_container_is_reached_from_within(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saying(monkeypatch, "/usr/bin/python3\n")

    found = shell.tunnel(folder, HERE, 8888)

    assert isinstance(found, StdioProxy)
    assert found.argv[3:5] == ("job-000001-0-1-3", "/usr/bin/python3")
    assert found.argv[-4:] == ("/.runspec/runspec_inside.pyz", "relay", "127.0.0.2", "8888")


def test_tunnel_without_python_uses_the_containers_address(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes of a task share one network, which is another container's."""
    asked = saying(monkeypatch, "", "10.88.0.7 \n")

    assert shell.tunnel(folder, HERE, 8888) == Address("10.88.0.7", 8888)
    assert asked[1][-1] == "job-000001-0-net-3"


def test_tunnel_without_python_or_address_names_an_image(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saying(monkeypatch, "", " \n")

    with pytest.raises(Unavailable) as caught:
        shell.tunnel(folder, HERE, 8888)
    assert caught.value.hint == "use an image that has python3"


@pytest.mark.parametrize("at", [(0, 0), (0, 2), (1, 1)])
def test_a_node_that_does_not_run_is_named(folder: Path, at: tuple[int, int]) -> None:
    with pytest.raises(
        Unavailable, match=f"task {at[0]}, node {at[1]} of job-000001 is not running"
    ):
        shell.tunnel(folder, at, 8888)


def test_shell_refuses_a_run_whose_supervisor_died(folder: Path) -> None:
    who = {**process.identity(), "ticks": 1}
    (folder / "started.json").write_text(json.dumps(who))

    with pytest.raises(Unavailable, match="is not running"):
        shell.shell(folder, HERE, [], {}, terminal=False)


def test_the_shells_environment_is_seen_by_no_message() -> None:
    found = ExecSpec(("sh",), {"TOKEN": "canary"}, "/here")

    assert "canary" not in f"{found} {found!r}"
