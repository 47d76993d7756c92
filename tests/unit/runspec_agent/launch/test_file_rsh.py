"""The remote shell of files: what the first node asks another one to run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_agent.base import process
from runspec_agent.launch.file_rsh import Server

COMMAND = "echo /first/env/bin/prted --prefix '/first/env' /first/environment"


def run(folder: Path, environment: str) -> str:
    """Return what a node whose environment is /second/env runs for a request."""
    meeting: Any = SimpleNamespace(
        folder=str(folder), path=lambda name: str(folder / name), words=SimpleNamespace(rank=1)
    )
    record = {"token": "t", "command": COMMAND, "unlike": None, "environment": environment}
    (folder / "ask-1-x.json").write_text(json.dumps(record))
    server = Server(meeting, "t", {**os.environ, "VIRTUAL_ENV": "/second/env"})

    assert server.accept()

    while server.running():
        process.reap(server.running())
    return (folder / "out-1-x").read_text()


@pytest.mark.process
def test_a_command_names_the_environment_of_the_node_that_runs_it(tmp_path: Path) -> None:
    """Open MPI names its daemon by its path on the first node, and each node has packages in a folder of its own."""
    said = run(tmp_path, "/first/env")

    assert said == "/second/env/bin/prted --prefix /second/env /first/environment\n"
