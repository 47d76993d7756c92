"""The environment that nodes share: built once, whoever is killed or frozen, and never used half-built."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runspec_agent.base import files, requirements, shared_environment
from runspec_agent.base.job_env import Failure

pytestmark = pytest.mark.process

# Stands in for uv: it notes each installation, which takes until the file `go` is there, and fails if it says so.
UV = """\
#!/bin/sh
if [ "$1" = venv ]; then
  for made; do :; done
  mkdir -p "$made/bin" && ln -s PYTHON "$made/bin/python"
  exit
fi
made=${5%/bin/python}
echo $$ >>FOLDER/installed
until [ -e FOLDER/go ]; do sleep 0.02; done
grep -q fail FOLDER/go && exit 1
echo whole >"$made/mark"
"""
NODE = """\
import os, sys
from runspec_agent.base import limits, shared_environment as shared
from runspec_agent.base.job_env import Failure
limits.BUILD_BEAT_S, limits.BUILD_LEASE_S, shared.PAUSE_S = 0.1, float(sys.argv[2]), 0.05
env = dict(os.environ)
try:
    shared.ensure({"requirements": ["x"], "build_constraints": []}, sys.argv[1], env)
except Failure as failure:
    sys.exit("failed: " + str(failure))
print("made " + env["VIRTUAL_ENV"] + " " + open(env["VIRTUAL_ENV"] + "/mark").read())
"""
WAIT_S = 60.0


class World:
    """A folder that nodes share; *slow* installations wait for `go`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shared = folder, folder / "environments"
        text = UV.replace("PYTHON", sys.executable).replace("FOLDER", str(folder))
        (folder / "uv").write_text(text)
        (folder / "uv").chmod(0o755)

    def node(self, run: str = "job-1", lease_s: float = 1.0) -> subprocess.Popen[str]:
        source = str(Path(requirements.__file__).parents[2])
        env = {
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "PYTHONPATH": source,
            "RUNSPEC_RUN": run,
        }
        return subprocess.Popen(
            [sys.executable, "-c", NODE, str(self.shared), str(lease_s)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )

    def go(self, how: str = "on") -> None:
        (self.folder / "go").write_text(how)

    @property
    def installed(self) -> list[str]:
        path = self.folder / "installed"
        return path.read_text().split() if path.exists() else []

    @property
    def made(self) -> list[Path]:
        return sorted(path for path in self.shared.glob("*/*") if path.is_dir())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Give the exit code, and what the node says of the environment."""
    out, err = process.communicate(timeout=WAIT_S)
    said = [line for line in (out + err).splitlines() if line.startswith(("made", "failed"))]
    return process.returncode, said[-1] if said else err


def test_nodes_that_begin_at_once_build_once_and_later_ones_not_at_all(world: World) -> None:
    nodes = [world.node() for _ in range(4)]
    until(lambda: world.installed)
    time.sleep(1.5)  # the others wait for longer than a lease
    world.go()

    found = [ended(node) for node in (*nodes, world.node("job-2"))]

    (made,) = world.made
    assert found == [(0, f"made {made}/env whole")] * 5
    assert len(world.installed) == 1
    assert not list(world.shared.rglob("*.part"))


def test_a_node_that_waits_for_another_one_says_so_once(world: World) -> None:
    builder = world.node()
    until(lambda: world.installed)
    other = world.node()
    said = other.stdout
    assert said is not None
    try:
        until(lambda: select.select([said], [], [], 0)[0])
    finally:
        world.go()
    first = said.readline()

    rest = [node.communicate(timeout=WAIT_S)[0] for node in (builder, other)]

    assert first == "runspec: waiting for another node, which builds the environment\n"
    assert not [text for text in rest if "waiting" in text]


def test_a_node_takes_over_from_a_builder_that_was_killed(world: World) -> None:
    """Its half-built environment is used by nobody, and removed."""
    builder = world.node()
    until(lambda: world.installed)
    half = world.made
    os.killpg(builder.pid, signal.SIGKILL)
    builder.communicate()
    world.go()

    found = ended(world.node())

    (made,) = world.made
    assert found == (0, f"made {made}/env whole")
    assert half != [made]
    assert len(world.installed) == 2


def test_a_builder_that_was_only_frozen_spoils_nothing(world: World) -> None:
    """It was taken for dead; when it goes on, it uses what another node has built."""
    builder = world.node()
    until(lambda: world.installed)
    os.killpg(builder.pid, signal.SIGSTOP)
    other = world.node()
    until(lambda: len(world.installed) == 2)
    world.go()
    first = ended(other)
    (made,) = world.made
    os.killpg(builder.pid, signal.SIGCONT)

    second = ended(builder)

    assert first == second == (0, f"made {made}/env whole")
    assert world.made == [made]


def test_of_two_builders_that_end_the_first_counts(world: World) -> None:
    """One of them was taken for dead, and was about to end."""
    builder = world.node()
    until(lambda: world.installed)
    (own,) = world.made
    other = own.with_name("other")
    (other / "env").mkdir(parents=True)
    (other / "env" / "mark").write_text("theirs")
    (own.parent / "built").write_text("other")
    world.go()

    found = ended(builder)

    assert found == (0, f"made {other}/env theirs")
    assert world.made == [other]


def test_a_builder_whose_files_another_one_removes_uses_what_that_one_has_built(
    world: World,
) -> None:
    """It was taken for dead, and its installation fails because of that."""
    builder = world.node()
    until(lambda: world.installed)
    (own,) = world.made
    other = own.with_name("other")
    (other / "env").mkdir(parents=True)
    (other / "env" / "mark").write_text("theirs")
    (own.parent / "built").write_text("other")
    world.go("fail")

    found = ended(builder)

    assert found == (0, f"made {other}/env theirs")
    assert world.made == [other]


def test_a_failure_ends_the_nodes_of_the_run_that_wait_and_the_next_attempt_builds(
    world: World,
) -> None:
    builder = world.node(lease_s=WAIT_S)
    until(lambda: world.installed)
    others = [world.node(run, lease_s=WAIT_S) for run in ("job-1", "job-1", "job-2")]
    for other in others:
        assert other.stdout is not None
        assert "waiting for another node" in other.stdout.readline()
    world.go("fail")

    found = [ended(node) for node in (builder, *others)]

    assert all(code == 1 and "packages cannot be installed" in line for code, line in found)
    assert len(world.installed) == 2  # the node of the other job has tried, too

    world.go()

    assert ended(world.node())[0] == 0


def test_a_failure_just_before_the_lock_is_free_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The builder notes its failure and gives the lock back between two steps of a node that waits."""

    class LateLock(shared_environment.Lock):
        def take(self) -> bool:
            noted = {"run": "job-1", "why": "no such package", "token": "other"}
            files.write_record(str(Path(self.path).with_name("failed-job-1")), noted)
            return super().take()

    monkeypatch.setattr(shared_environment, "Lock", LateLock)

    with pytest.raises(Failure, match="another node of this job says: no such package"):
        shared_environment.ensure({}, str(tmp_path), {"RUNSPEC_RUN": "job-1"})
    assert not list(tmp_path.glob("*/lock"))


def test_an_environment_that_was_deleted_is_built_again(world: World) -> None:
    world.go()
    ended(world.node())
    (made,) = world.made
    subprocess.run(["rm", "-r", str(made)], check=True)

    assert ended(world.node())[0] == 0
    assert len(world.installed) == 2


def test_another_python_has_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = shared_environment.kind()
    assert mine == shared_environment.kind()

    monkeypatch.setattr(sys, "executable", "/other/python3")

    assert shared_environment.kind() != mine
    assert json.dumps(mine).isascii()
