"""The cluster is a real Slurm, beside others, for anybody, and gone when it is closed."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.slurm import Cluster, Failed, NoSlurm, Partition, Shape
from runspec_emulators.slurm.cluster import found_programs
from tests.emulators.slurm.hand import holders, job, said, submit, until
from tests.support.requirements import need, need_root
from tests.support.root import ROOT
from tests.support.slurm.shared_cluster import PROGRAMS, slurm

__all__ = ["slurm"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a cluster whose daemons tests may end: they mend it."""
    need(*PROGRAMS)
    with Cluster(tmp_path_factory.mktemp("two"), nodes=2) as cluster:
        yield cluster


def test_a_job_has_a_process_on_each_node_and_the_gpus_it_asked_for(slurm: Cluster) -> None:
    line = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"

    told = slurm.run("srun", "--nodes=4", "--gpus-per-node=2", "sh", "-c", line)

    assert sorted(told.split("\n")[:-1]) == [f"node{i} 0,1" for i in range(1, 5)]


def test_a_step_keeps_its_variables_and_gets_the_rest_from_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task prolog runs before the batch script and before each step of it, which may have other values."""
    need(*PROGRAMS)
    monkeypatch.setenv("LANG", "C.UTF-8")
    line = ("srun", "sh", "-c", "echo $LANG $TZ")

    with Cluster(tmp_path, nodes=1, prolog=True) as cluster:
        own = cluster.run("env", "LANG=de_DE", "TZ=UTC+3", *line)
        ours = cluster.run("env", "-u", "LANG", "TZ=UTC+3", *line)

    assert (own, ours) == ("de_DE UTC+3\n", "C.UTF-8 UTC+3\n")


def test_a_job_that_can_never_run_is_refused(slurm: Cluster) -> None:
    for wrong in ("--nodes=5", "--mem=2001", "--cpus-per-task=3", "--gpus-per-node=3"):
        with pytest.raises(Failed):
            submit(slurm, "true", wrong)
    with pytest.raises(Failed, match="time limit"):
        submit(slurm, "true", "--partition=short", "--time=2")


def test_a_job_that_ends_while_it_is_cancelled_is_no_failure(
    slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    scancel = tmp_path / "scancel"
    scancel.write_text("#!/bin/sh\nexit 229\n")  # as scancel does, with no word
    scancel.chmod(0o700)
    slurm.cancel("1")

    scancel.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(Failed):
        slurm.cancel("1")


def test_a_long_folder_is_no_matter(tmp_path: Path) -> None:
    """The path of a Unix socket has at most 107 bytes."""
    need(*PROGRAMS)

    with Cluster(tmp_path / ("long" * 40), nodes=1) as cluster:
        assert cluster.run("srun", "hostname").strip()


def test_clusters_live_beside_each_other(two: Cluster, tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=1, partitions=[Partition("other")]) as other:
        submit(other, "true")

        assert set(other.states()) == {"node1"}
        assert set(two.states()) == {"node1", "node2"}
        assert not set(holders(two)) & set(holders(other))


def test_nothing_is_left_of_a_closed_cluster(tmp_path: Path) -> None:
    """Neither its daemons, nor jobs that wait, nor what a job has left alone."""
    need(*PROGRAMS)
    with Cluster(tmp_path, nodes=1) as cluster:
        number = submit(cluster, "setsid sleep 600 & echo up; sleep 600")
        until(lambda: said(cluster, number) == "up\n")
        assert len(holders(cluster)) >= 5

    assert holders(cluster) == []
    assert not cluster.places.near.exists()


def test_nothing_is_left_where_its_maker_is_killed(tmp_path: Path) -> None:
    """The program hands its variables out, and cannot clean up after SIGKILL."""
    need(*PROGRAMS)
    command = [sys.executable, "-m", "runspec_emulators.slurm", str(tmp_path), "--nodes=1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"SLURM_CONF" in process.stdout.readline()
        assert len(holders(tmp_path)) >= 2

        process.send_signal(signal.SIGKILL)

        until(lambda: not holders(tmp_path))


def test_the_program_has_nodes_that_a_job_can_tell_apart(tmp_path: Path) -> None:
    """They are one machine, whose address would be that of each: no MPI job could run on two of them."""
    need(*PROGRAMS)
    command = [sys.executable, "-m", "runspec_emulators.slurm", str(tmp_path), "--nodes=2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        env = {**os.environ, **json.loads(process.stdout.readline())}
        asked = ["srun", "--nodes=2", "--ntasks-per-node=1", "printenv", "RUNSPEC_HOST"]

        said = subprocess.run(asked, env=env, capture_output=True, text=True, check=True)

        process.send_signal(signal.SIGTERM)
    assert sorted(said.stdout.split()) == ["127.77.0.2", "127.77.0.3"]


def test_a_node_that_slurm_does_not_take_is_told_with_the_reason(
    tmp_path: Path,
) -> None:
    need(*PROGRAMS)
    huge, strict = Shape(memory_mb=10**8), {"SlurmdParameters": "shutdown_on_reboot"}

    with pytest.raises(Failed, match=r"inval.*Low RealMemory"):
        Cluster(tmp_path, 1, huge, more=strict, up_s=2)


def test_a_daemon_that_ends_is_told_with_what_it_said(tmp_path: Path) -> None:
    need(*PROGRAMS)

    with pytest.raises(Failed, match=r"(?s)slurmctld has ended with 1: .*select/none"):
        Cluster(tmp_path, 1, more={"SelectType": "select/none"})


def test_programs_that_are_not_installed_are_named_by_their_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None if name == "munged" else name)

    with pytest.raises(NoSlurm, match=r"missing packages: munge$"):
        found_programs()


def test_an_ordinary_user_has_a_cluster_too(tmp_path: Path) -> None:
    """The system's Python: an ordinary user may not see that of the project."""
    need(*PROGRAMS)
    need_root()
    nobody = pwd.getpwnam("nobody").pw_uid
    script = (
        "import sys; from pathlib import Path; from runspec_emulators.slurm import Cluster\n"
        "with Cluster(Path(sys.argv[1], 'c'), nodes=1) as c: print(c.run('srun', 'id', '-u'))"
    )
    home = Path(f"/tmp/slurm-nobody-{os.getpid()}")  # below pytest's folder nobody gets anywhere
    for name in ("emulators/runspec_emulators", "providers/runspec_namespaces"):
        shutil.copytree(ROOT / name, home / Path(name).name)
    os.chown(home, nobody, nobody)
    try:
        done = subprocess.run(
            [a_python(nobody), "-c", script, str(home)],
            user=nobody,
            group=nobody,
            extra_groups=[],
            cwd=home,
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        )
    finally:
        shutil.rmtree(home)

    assert (done.stdout.strip(), done.stderr) == (str(nobody), "")


def a_python(user: int) -> str:
    """Give a Python that *user* can run; skip where there is none."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            subprocess.run(
                [path, "-c", "import tomllib"], user=user, check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return path
    pytest.skip("no Python that an ordinary user can run")


def test_a_frozen_controller_answers_nothing_until_it_goes_on(two: Cluster) -> None:
    with two.frozen(), pytest.raises(subprocess.TimeoutExpired):
        two.run("squeue", timeout_s=0.5)

    assert two.states() == {"node1": "idle", "node2": "idle"}


def test_a_controller_that_starts_again_knows_its_jobs(two: Cluster) -> None:
    number = submit(two, "sleep 600")
    until(lambda: job(two, number) == "RUNNING")

    two.stop_controller()
    assert not two.listens()
    two.mend(cancel=False)

    assert job(two, number) == "RUNNING"
    two.mend()
    assert job(two, number) == "CANCELLED"


def test_a_job_of_a_lost_node_is_tried_on_another(two: Cluster) -> None:
    number = submit(two, "echo $SLURMD_NODENAME $$; sleep 600", "--requeue", "--open-mode=append")
    until(lambda: said(two, number).endswith("\n"))
    node, pid = said(two, number).split()

    two.lose(node)
    gone = not Path(f"/proc/{pid}").exists()
    two.set_node(node, "DOWN")
    until(lambda: len(said(two, number).split()) == 4)

    assert gone
    assert said(two, number).split()[2] != node
    two.mend()
    assert set(two.states().values()) == {"idle"}


def test_a_drained_node_gets_no_job_until_it_resumes(two: Cluster) -> None:
    two.set_node("node1", "DRAIN")

    number = submit(two, "true", "--nodelist=node1")
    two.await_states("drained".__eq__, ["node1"])
    assert job(two, number) == "PENDING"
    two.set_node("node1", "RESUME")

    until(lambda: job(two, number) == "COMPLETED")
