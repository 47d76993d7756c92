"""A container that cannot start is told from a program that ends with the same exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import Status
from tests.support.wait import until
from tests.unit.runspec_local.supervisor.test_supervisor import World, world as world

pytestmark = pytest.mark.process

LIMITS = dict.fromkeys(("cpus", "memory_bytes", "shm_bytes"))
# What an engine does with `run` is written to the file `acts`
ENGINE = """\
#!/bin/sh
case $1 in
container) cat {folder}/running; exit ;;
run) ;;
*) exit ;;
esac
for word; do
  case $word in
  *target=/.runspec/begun) begun=${{word#*source=}} begun=${{begun%%,*}} ;;
  *-net-1) name=network ;;
  esac
done
. {folder}/acts
"""
PULL = """\
Trying to pull localhost/i:1...
time="2026-01-01T00:00:00Z" level=warning msg="Failed, retrying in 1s ... (1/3). Error: it was refused"
Error: initializing source docker://localhost/i:1: connection refused"""
OF_DOCKER = """\
docker: Error response from daemon: failed to create task: exec: "/bin/sh": no such file or directory

Run 'docker run --help' for more information"""


class Engine:
    """A container engine of which the test says what it does."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world, self.path = folder, world, folder / "podman"
        self.path.write_text(ENGINE.format(folder=folder))
        self.path.chmod(0o755)

    def ended(self, acts: str, running: str = "true", **more: Any) -> Status:
        """Run a job whose containers do what *acts* says; return the state of the run at its end."""
        (self.folder / "acts").write_text(acts)
        (self.folder / "running").write_text(running)
        container = {**LIMITS, "image": "i:1"}
        self.world.start("true", engine=str(self.path), container=container, **more)
        until(lambda: self.world.state.terminal)
        return self.world.client.state(self.world.folder.name)


@pytest.fixture
def engine(tmp_path: Path, world: World) -> Engine:
    return Engine(tmp_path, world)


@pytest.mark.parametrize(
    ("said", "code", "told", "why"),
    [
        (PULL, 125, 125, "initializing source docker://localhost/i:1: connection refused"),
        ("exec /bin/sh: exec format error", 1, 126, "exec /bin/sh: exec format error"),
        ("exec /bin/sh: exec format error", 0, 126, "exec /bin/sh: exec format error"),
        ("Error: runc: permission denied", 126, 126, "runc: permission denied"),
        (OF_DOCKER, 127, 127, 'failed to create task: exec: "/bin/sh": no such file or directory'),
        ("unable to upgrade to tcp", 1, 126, "unable to upgrade to tcp"),
        ("", 125, 125, "it gave no reason"),
    ],
)
def test_the_reason_of_an_engine_is_that_of_a_job_whose_image_cannot_start(
    engine: Engine, said: str, code: int, told: int, why: str
) -> None:
    """The next attempt would not start either, so there is none."""
    (engine.folder / "said").write_text(said and f"{said}\n")

    state = engine.ended(f"cat {engine.folder}/said; exit {code}", attempts=2)

    (node,) = state.nodes
    (attempt,) = node.attempts
    assert (node.state.name, node.exit_code, attempt.exit_code) == ("FAILED", told, told)
    assert attempt.reason == f"{engine.path} could not start the image i:1: {why}"


@pytest.mark.parametrize("code", [1, 125, 126, 127])
def test_an_exit_code_of_a_program_is_its_own_in_a_container(engine: Engine, code: int) -> None:
    """Although an engine ends with the same codes if the container does not start."""
    state = engine.ended(f'true >"$begun"; echo Error: it failed; exit {code}', attempts=2)

    attempts = state.nodes[0].attempts
    assert [(each.exit_code, each.reason.partition(" (")[0]) for each in attempts] == [
        (code, f"exited with code {code}")
    ] * 2


def test_nodes_are_told_why_the_container_of_their_network_cannot_start(engine: Engine) -> None:
    acts = """\
[ "$name" ] && { echo 'Error: runc: no such file or directory'; exit 127; }
sleep 0.2; echo 'Error: there is no container of that name'; exit 125"""

    state = engine.ended(acts, running="false", nodes=2, attempts=2)

    (first,) = state.nodes[0].attempts
    why = "runc: no such file or directory"
    assert first.reason == f"{engine.path} could not start the image i:1: {why}"
    assert first.exit_code == 127
