"""A node finds its folders as the spec says, and changes nobody else's."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.rendezvous import hostfile, shared_directory
from runspec_local.session.gpus import Gpu
from runspec_local.supervisor.node import BEGIN, CHECK_GPUS, Node, host


def job(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "run": "r-1",
        "folder": str(folder / "run"),
        "engine": "process",
        "nodes": 2,
        "slots": 3,
        "outputs": [],
        "mounts": [],
        "environment": None,
        **more,
    }


def mount(source: Path, read_only: bool) -> dict[str, Any]:
    where = {"source": str(source), "target": "/job/code"}
    return {"name": "code", **where, "read_only": read_only, "copy": True}


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    folder = tmp_path / "blob"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/run").write_text("x")
    (folder / "bin/run").chmod(0o555)
    (folder / "bin").chmod(0o555)
    return folder


@pytest.mark.parametrize("read_only,modes", [(True, [0o555, 0o555]), (False, [0o700, 0o755])])
def test_a_node_has_its_own_copy_of_a_folder(
    tmp_path: Path, blob: Path, read_only: bool, modes: list[int]
) -> None:
    """Root can write to it in spite of its modes, and changes its own alone."""
    node = Node(job(tmp_path, mounts=[mount(blob, read_only)]), 0, 0, 1)

    node.prepare()

    mine = node.folder / "job/code/bin"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (mine, mine / "run")] == modes
    assert not os.path.samestat((mine / "run").stat(), (blob / "bin/run").stat())


def test_an_incomplete_copy_of_a_mount_is_made_again(tmp_path: Path, blob: Path) -> None:
    node = Node(job(tmp_path, mounts=[mount(blob, read_only=True)]), 0, 0, 1)
    left = node.folder / "job/.new-code"
    left.mkdir(parents=True)

    node.prepare()
    node.prepare()

    assert [path.name for path in (node.folder / "job").iterdir()] == ["code"]
    assert (node.folder / "job/code/bin/run").read_text() == "x"


@pytest.mark.parametrize(("engine", "seen"), [("podman", "/job/{}"), ("process", "{}/job/{}")])
def test_what_other_runs_have_saved_is_told_where_the_program_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, seen: str
) -> None:
    """Absolute links in it begin with that path, and not with that of the half of a copy.

    The agent may be older, as that of an `apply` that another version goes on with: it ignores a field of the record,
    and refuses another word.
    """
    asked = dict[str, str]()
    words = {"output": 3, "resume": 5}

    def ask(line: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        """Stand in for the agent, whose verb is the fourth word."""
        assert len(line[4:]) == words[line[3]]
        asked[line[3]] = json.loads(line[5])["seen"]
        Path(line[-1]).mkdir(parents=True)
        return subprocess.CompletedProcess(line, 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", ask)
    output = {"name": "out", "path": "/job/out"}
    other = {**mount(tmp_path, read_only=True), "saves": {"run": "r-0"}}
    resume = {"run": "r-0", "saves": {"out": {"0/0": 1}}}
    more = {"engine": engine, "outputs": [output], "mounts": [other], "resume": resume}
    node = Node(job(tmp_path, **more), 0, 0, 1)
    node.log.parent.mkdir(parents=True)

    node.prepare()

    at = str(node.folder)
    expected = [seen.format(*[at] * (engine == "process"), name) for name in ("out", "code")]
    assert [asked["resume"], asked["output"]] == expected
    assert (node.folder / "job/code").is_dir()


def test_the_host_file_is_there_without_a_launcher(tmp_path: Path) -> None:
    """As our launcher would write it."""
    node = Node(job(tmp_path), 0, 1, 1)

    node.prepare()

    nodes = [shared_directory.Node(rank, host(rank), "", "", 0) for rank in range(2)]
    assert (node.meet / "hostfile").read_text() == hostfile.text(nodes, 3)


def test_a_container_is_given_paths_with_colons_and_its_own_gpus(tmp_path: Path) -> None:
    limits = dict.fromkeys(("cpus", "memory_bytes", "shm_bytes"))
    more = {
        "engine": "podman",
        "argv": ["echo"],
        "env": {},
        "secrets": [],
        "tasks": [{}],
        "grace_s": 5,
        "launch": "none",
        "environment": None,
        "container": {**limits, "image": "img:1", "ulimits": {"memlock": -1}},
        "mounts": [{**mount(tmp_path / "a:b", read_only=True), "copy": False}],
    }
    node = Node(job(tmp_path, **more), 0, 0, 1, [Gpu("3", "GPU-d4")])

    words = node.argv()

    assert words[words.index("--device") + 1] == "nvidia.com/gpu=3"
    assert words[words.index("--ulimit") + 1] == "memlock=-1:-1"
    checked = Node({**node.job, "check_gpus": 1}, 0, 0, 1, node.devices).argv()
    assert checked[-5:] == ["gpus", "1", "/bin/sh", "/.runspec/inside.sh", "echo"]
    assert f"type=bind,source={tmp_path}/a:b,target=/job/code,readonly" in words
    assert (words[-5:-2], words[-2:]) == (
        ["img:1", "-c", BEGIN + '. "$0"'],
        ["/.runspec/inside.sh", "echo"],
    )


@pytest.mark.process
def test_a_container_without_python_says_that_its_gpus_were_not_checked(tmp_path: Path) -> None:
    (tmp_path / "echo").symlink_to("/bin/echo")
    words = ["/bin/sh", "-c", CHECK_GPUS, "gpus", "1", "echo", "a b"]

    done = subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, check=True)

    assert done.stdout == b"a b\n"
    assert done.stderr == b"runspec: GPUs were not checked: the image has no python3\n"
