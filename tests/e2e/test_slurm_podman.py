"""Containers by podman on a real Slurm: on one node, on two, and where no engine is."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Cluster
from runspec_images import image_build
from runspec_jobs.state_folder import find_runs_folder
from tests.e2e.test_podman import (
    CANNOT_START,
    IMAGE,
    PULLED_AGAIN,
    broken_image,
    podman as podman,  # a fixture
    with_entrypoint,
)
from tests.support import ends, open_registry, private_registry, process_table
from tests.support.container_shell import shell_in_container
from tests.support.requirements import need
from tests.support.slurm.project import Capture, Project, prepared
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.podman]
HERE = "127.0.0.1:9/runspec-test:1"  # of a registry where nobody listens: the nodes have it already
COMMANDS = "sbatch scancel squeue scontrol sinfo srun sacct sh cat env uname sed python3".split()


@pytest.fixture(scope="module")
def boxes(podman: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a cluster of two nodes whose podman has IMAGE, and the rights that this machine has."""
    need(*PROGRAMS)
    subprocess.run(["podman", "tag", IMAGE, HERE], env={**os.environ, **podman}, check=True)
    folder = tmp_path_factory.mktemp("boxes")
    with Cluster(folder, 2, prolog=True, address_in="RUNSPEC_HOST") as cluster:
        with (folder / "prolog").open("a") as prolog:
            prolog.writelines(f"echo 'export {name}={value}'\n" for name, value in podman.items())
        yield cluster


@pytest.fixture
def project(
    boxes: Cluster,
    podman: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> Iterator[Project]:
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    yield from prepared(boxes, tmp_path, monkeypatch, capsys, podman=[], python="/usr/bin/python3")


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.matrix), 2])
def test_each_node_runs_the_image_with_its_folders_and_its_words(
    project: Project, tmp_path: Path, nodes: int
) -> None:
    """What the image has is around the program, and what the spec says; its files come back from each node."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x.txt").write_text("here\n")

    found = project.ended(
        "cat /job/code/x.txt; test ! -e /usr/bin/podman; "
        'echo "$RUNSPEC_RANK of $RUNSPEC_NODES: $WORD" >/job/out/said',
        cluster={"nodes": nodes},
        container={"image": HERE},
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "out", "path": "/job/out"}],
        env={"WORD": "a, 'b' $c"},
    )

    assert (found["state"], found["exit_code"]) == ("succeeded", 0), project.log()
    expected = [f"{rank} of {nodes}: a, 'b' $c\n" for rank in range(nodes)]
    assert sorted(project.fetched().values()) == expected
    assert project.log().count("here\n") == nodes


def test_the_entrypoint_of_an_image_runs_as_each_rank(project: Project) -> None:
    """Where only the engine knows it: the batch script asks for it."""
    serve = 'echo "$PWD $SLURM_PROCID: $*" >"$1/said-$SLURM_PROCID"'
    image = "127.0.0.1:9/serve:1"
    with_entrypoint(image, ["sh", "-c", serve, "it's"], "WORKDIR /usr/lib")

    found = project.ended(
        launch="srun",
        processes_per_node=2,
        container={"image": image, "entrypoint": "image", "args": ["${outputs.out}", "a  b"]},
        outputs=[{"name": "out", "path": "/job/out"}],
    )

    assert (found["state"], found["exit_code"]) == ("succeeded", 0), project.log()
    expected = [f"/usr/lib {rank}: /job/out a  b\n" for rank in range(2)]
    assert sorted(project.fetched().values()) == expected


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.matrix), 2])
def test_an_image_of_a_private_registry_is_pulled_on_the_nodes(
    boxes: Cluster,
    podman: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    nodes: int,
) -> None:
    """The login is in a file of the run, which only its owner can read, and which is deleted with the run."""
    canary = private_registry.PASSWORD.encode()
    monkeypatch.setenv("REGISTRY_PASSWORD", private_registry.PASSWORD)
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    seen: set[bool] = set()

    def look() -> None:
        seen.add(any(canary in line for _, line in process_table.words()))

    with private_registry.registry(IMAGE, tmp_path / "image", podman, look) as image:
        login = {
            "registry": image.partition("/")[0],
            "registry_user": private_registry.USER,
            "registry_password": "env:REGISTRY_PASSWORD",
        }
        own = {"podman": [], "python": "/usr/bin/python3", **login}
        for project in prepared(boxes, tmp_path, monkeypatch, capsys, **own):
            found = project.ended("echo here", cluster={"nodes": nodes}, container={"image": image})
            (file,) = project.workspace.glob("runs/*/login/config.json")

            assert found["state"] == "succeeded", project.log()
            assert project.log().count("here\n") == nodes
            assert seen == {False}
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert private_registry.holding_password(tmp_path) == [file]
            assert private_registry.holding_password(find_runs_folder()) == []
            assert project.said("destroy", "job")[0] == 0
            assert not file.exists()


def test_an_image_that_a_job_has_built_is_pushed_and_run_by_its_digest(
    boxes: Cluster,
    podman: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    """By the login of the profile, with which the nodes pull it; what has not changed is not built again."""
    need("docker-registry")
    monkeypatch.setenv("REGISTRY_PASSWORD", private_registry.PASSWORD)
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "registry").mkdir()
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "Containerfile").write_text(f"FROM {IMAGE}\nCOPY said /said\n")
    (tmp_path / "image" / "said").write_text("built\n")
    wanted: dict[str, Any] = {
        "cluster": {"nodes": 2},
        "container": {"build": {"context": "./image"}},
    }
    with open_registry.open_registry(tmp_path / "registry") as host:
        own = {
            "podman": [],
            "python": "/usr/bin/python3",
            "images": f"{host}/team/jobs",
            "registry": host,
            "registry_user": private_registry.USER,
            "registry_password": "env:REGISTRY_PASSWORD",
        }
        for project in prepared(boxes, tmp_path, monkeypatch, capsys, **own):
            found = [project.ended("cat /said", **wanted)]
            assert project.log().count("built\n") == 2
            with monkeypatch.context() as patch:
                patch.setattr(image_build, "ENGINES", ())
                found.append(project.ended("cat /said", "--new", **wanted))
            job = project.jobs("%i")[-1]
            script = boxes.run("scontrol", "write", "batch_script", job, "-")

            assert [one["state"] for one in found] == ["succeeded"] * 2
            assert re.search(rf"{host}/team/jobs@sha256:[0-9a-f]{{64}}", script)
            assert len(open_registry.tags(tmp_path / "registry")) == 1


def test_cancel_lets_the_program_in_a_container_save(project: Project) -> None:
    project.started(
        'trap "echo saved >/job/out/state; exit 0" TERM; echo ready; while :; do sleep 0.1; done',
        container={"image": HERE},
        outputs=[{"name": "out", "path": "/job/out"}],
    )
    project.until_said("ready")

    assert project.said("cancel", "job")[0] == 0

    assert project.status()["state"] == "cancelled"
    assert project.fetched() == {"out/state": "saved\n"}
    assert project.alive() == []


def test_an_image_that_no_engine_can_run_is_refused_by_name(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is made or submitted."""
    (tmp_path / "bin").mkdir()
    for name in COMMANDS:
        if found := shutil.which(name):
            (tmp_path / "bin" / name).symlink_to(found)

    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path / "bin"))
        code, _, err = project.said("apply", project.write("true", container={"image": HERE}))

    assert code == 2
    assert "container.image: the cluster has no container engine" in err, err
    assert project.jobs("%i", "--states=pending,running") == []
    assert project.left() == []


@pytest.mark.matrix
def test_a_new_shell_is_in_the_container_and_the_job_ends_with_it(project: Project) -> None:
    project.write("true", timeout="5m", container={"image": HERE}, env={"WORD": "here"})

    done = shell_in_container()

    assert (done.stdout, done.returncode) == ("here\n", 6), done.stderr
    project.until(lambda: not project.alive())


@pytest.mark.matrix
def test_nodes_in_containers_share_one_environment_in_the_workspace(project: Project) -> None:
    """By the Python of the image; a stand-in for uv, which the containers find in the workspace, counts."""
    tools = project.workspace / "tools"
    tools.mkdir(parents=True)
    (tools / "uv").write_text(
        "#!/bin/sh\n"
        'for made; do :; done; [ "$1" = venv ] || { echo built >>"${0%/*}/calls"; exit; }\n'
        'mkdir -p "$made/bin"; ln -s /usr/bin/python3 "$made/bin/python"\n'
    )
    (tools / "uv").chmod(0o755)

    found = project.ended(
        'python -c "import sys; print(sys.executable)"',
        cluster={"nodes": 2},
        container={"image": HERE, "requirements": ["x"]},
        env={"PATH": f"{tools}:{os.defpath}"},
    )

    assert (found["state"], found["exit_code"]) == ("succeeded", 0), project.log()
    assert (tools / "calls").read_text() == "built\n"
    lines = [line for line in project.log().splitlines() if line.endswith("/env/bin/python")]
    assert len(lines) == 2
    assert str(project.workspace / "environments") in lines[0]


@pytest.mark.matrix
@pytest.mark.parametrize("end", CANNOT_START)
def test_a_job_whose_image_cannot_start_ends_as_recorded(
    project: Project, tmp_path: Path, end: str
) -> None:
    image = broken_image(end, "127.0.0.1:9/broken:1", tmp_path)
    spec = ends.spec("slurm", [end], timeout="10m", container={"image": image})
    (tmp_path / "job.yaml").write_text(json.dumps(spec))

    project.said("apply", "job.yaml")

    ends.check("slurm", ends.rows(project.status(), [end]))


@pytest.mark.matrix
def test_a_rule_has_an_image_be_pulled_again(project: Project, tmp_path: Path) -> None:
    spec = ends.spec("slurm", ["rule-image"], timeout="10m", **PULLED_AGAIN)
    (tmp_path / "job.yaml").write_text(json.dumps(spec))

    project.said("apply", "job.yaml")

    ends.check("slurm-rules", ends.rows(project.status(), ["rule-image"]))
