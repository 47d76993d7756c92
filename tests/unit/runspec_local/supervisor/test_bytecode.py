"""What Python compiles is kept where it helps the next run, and never beside a source."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from runspec_local.supervisor import bytecode
from runspec_local.supervisor.node import Node
from tests.unit.runspec_local.supervisor.test_node import job

pytestmark = pytest.mark.process

PROGRAM = "import json, lib, own; print(json.__cached__, lib.__cached__, own.__cached__, sep='\\n')"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    folder = tmp_path / "envs" / "key"
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "lib.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "own.py").write_text("y = 2\n")
    (folder / "run.py").write_text(PROGRAM)
    return folder


def ran(node: Node, source: Path) -> list[Path]:
    """Run the program on *node*, which finds *source* as a mount of files in place."""
    code = node.folder / "code"
    if not code.is_symlink():
        code.symlink_to(source)
    env = node.environment(os.environ, {})
    argv = ["python3", str(code / "run.py")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    return [Path(line) for line in done.stdout.splitlines()]


def nodes(tmp_path: Path, made: str | None) -> list[Node]:
    params = job(tmp_path, env={}, environment=made, launch="none", grace_s=5, tasks=[{}])
    found = [Node(params, 0, rank, 1) for rank in range(2)]
    for node in found:
        node.prepare()
    return found


def test_libraries_of_an_environment_are_compiled_once_for_all(
    tmp_path: Path, made: Path, source: Path
) -> None:
    first, second = nodes(tmp_path, str(made))

    of_json, of_lib, of_own = ran(first, source)
    times = [path.stat().st_mtime_ns for path in (of_json, of_lib)]
    others = ran(second, source)

    assert [path.stat().st_mtime_ns for path in others[:2]] == times
    assert all(path.resolve().is_relative_to(made / bytecode.KEPT) for path in (of_json, of_lib))
    assert of_own.resolve().is_relative_to(first.folder)
    assert sorted(p.name for p in source.iterdir()) == ["own.py", "run.py"]
    assert not list(made.glob("lib/**/__pycache__"))


def test_a_second_try_finds_what_the_first_one_compiled(
    tmp_path: Path, made: Path, source: Path
) -> None:
    first, _ = nodes(tmp_path, str(made))
    (*_, of_own) = ran(first, source)
    time = of_own.stat().st_mtime_ns

    first.prepare()

    assert ran(first, source)[-1].stat().st_mtime_ns == time


def test_nothing_is_compiled_for_a_python_of_the_users(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (source / "lib.py").write_text("x = 1\n")
    first, _ = nodes(tmp_path, None)

    of_json, *_ = ran(first, source)

    assert of_json.parent.name == "__pycache__" and tmp_path not in of_json.parents  # as it lies
    assert sorted(p.name for p in source.iterdir()) == ["lib.py", "own.py", "run.py"]
    assert not (first.folder / bytecode.KEPT).exists()


def test_a_container_gets_none_of_it(tmp_path: Path) -> None:
    params = job(tmp_path, engine="podman", environment="an-image:1")

    Node(params, 0, 0, 1).prepare()

    assert not (Path(params["folder"]) / "tasks/0/nodes/0" / bytecode.KEPT).exists()


def test_a_node_starts_where_nothing_can_be_kept(tmp_path: Path, made: Path, source: Path) -> None:
    (made / bytecode.KEPT).write_text("somebody's")

    first, _ = nodes(tmp_path, str(made))

    assert len(ran(first, source)) == 3
