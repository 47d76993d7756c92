"""The control group of a container is found, of either version, and counted if it has the job alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_agent.usage import cgroup
from runspec_agent.usage.meter import OwnUsage
from runspec_agent.usage.oom_kills import OomKills
from tests.unit.runspec_agent.usage.test_process_table import process

ME = 50


def files(folder: Path, **content: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    found = tmp_path / "proc"
    (found / "self").mkdir(parents=True)
    process(found, 1, 0)
    process(found, ME, 1, 100, 5)
    return found


def two(proc: Path, root: str = "/", path: str = "/") -> Path:
    """Give a machine with version 2, where *root* is mounted, and this process is in *path*."""
    mounted = proc.parent / "cgroup"
    (proc / "self" / "cgroup").write_text(f"0::{path}\n")
    (proc / "self" / "mountinfo").write_text(
        f"30 23 0:26 {root} {mounted} ro,nosuid - cgroup2 cgroup rw\n"
    )
    return mounted


def filled(folder: Path, members: str) -> None:
    files(
        folder,
        memory__current="1000000",
        memory__stat="anon 5\ninactive_file 400000\n",
        memory__max="max\n",
        cpu__stat="usage_usec 2500000\nuser_usec 1\n",
        cgroup__procs=members,
    )


@pytest.mark.parametrize(
    ("root", "path", "inner"),
    [("/", "/", ""), ("/", "/docker/7", "docker/7"), ("/docker/7", "/docker/7", "")],
)
def test_version_2_is_read(proc: Path, root: str, path: str, inner: str) -> None:
    filled(two(proc, root, path) / inner, f"1\n{ME}\n")

    own = OwnUsage(str(proc), ME)

    assert own.group is not None
    assert own.read() == (2.5, 600000)
    assert own.limit() is None


def test_version_1_is_read(proc: Path) -> None:
    """As a container has it: its own group is mounted."""
    base = proc.parent / "v1"
    (proc / "self" / "cgroup").write_text("9:memory:/docker/7\n4:cpu,cpuacct:/docker/7\n")
    (proc / "self" / "mountinfo").write_text(
        f"1 2 0:1 /docker/7 {base}/memory ro - cgroup cgroup rw,memory\n"
        f"1 2 0:1 /docker/7 {base}/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
    )
    files(
        base / "memory",
        memory__usage_in_bytes="900",
        memory__stat="inactive_file 1\ntotal_inactive_file 300\n",
        memory__limit_in_bytes="9223372036854771712",
        cgroup__procs=f"{ME}\n",
    )
    files(base / "cpu", cpuacct__usage="1500000000")

    own = OwnUsage(str(proc), ME)

    assert own.read() == (1.5, 600)
    assert own.limit() is None
    files(base / "memory", memory__limit_in_bytes="4096")
    assert own.limit() == 4096


def test_kills_for_memory_are_counted(proc: Path) -> None:
    """Without a limit, the group may be of many jobs: a kill there explains only a killed program."""
    group = two(proc)
    filled(group, f"{ME}\n")
    files(group, memory__events="oom 1\noom_kill 2\n")
    kills = OomKills(str(proc))

    assert not kills.explains(137)
    files(group, memory__events="oom 1\noom_kill 3\n")
    assert (kills.explains(137), kills.explains(1), kills.explains(0)) == (True, False, False)
    files(group, memory__max="4096")
    assert kills.explains(1)


@pytest.mark.parametrize("stranger", ["60", "0"])
def test_a_group_with_processes_of_others_is_not_counted(proc: Path, stranger: str) -> None:
    """For example that of a login session, or of a machine on which several jobs run; 0 is outside of a namespace."""
    filled(two(proc), f"1\n{ME}\n{stranger}\n")
    process(proc, 60, 1)

    own = OwnUsage(str(proc), ME)

    assert own.group is None
    assert own.read()[0] == 1.0


def test_usage_without_cgroups_is_summed_over_processes(proc: Path) -> None:
    assert cgroup.find(str(proc)) is None
    assert OwnUsage(str(proc), ME).read()[0] == 1.0
