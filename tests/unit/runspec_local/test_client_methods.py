"""What the methods of the client do that hand their work to another module, without an engine or a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import Chunk, Request, TimedChunk
from runspec_local import shell
from runspec_local.client import LocalClient
from runspec_local.infrastructure import environment, image
from runspec_local.status import FileStream

RUN = "job-a1"


@pytest.fixture
def client(tmp_path: Path) -> LocalClient:
    return LocalClient(str(tmp_path / "local"))


def test_an_environment_is_built_at_its_path(
    client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[Any, ...]] = []
    monkeypatch.setattr(environment, "build", lambda *args: built.append(args[:-1]))
    params = {"path": "/e", "requirements": "six", "build_constraints": "", "interpreter": "py"}

    answer = client.call(Request("local", "build_environment", params))

    assert answer == {"environment": "/e"}
    assert built == [(Path("/e"), "six", "", "py")]


def test_an_image_is_built_with_its_requirements(
    client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[Any, ...]] = []
    monkeypatch.setattr(image, "build", lambda *args: built.append(args[:5]))
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
