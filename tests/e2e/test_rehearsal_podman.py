"""The stand-in for AWS Batch runs jobs in real containers, with limits that are kept."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_podman import CONFIGURATION, STORAGE
from tests.emulators.aws.stand import Stand
from tests.support.requirements import lack, need, need_root

IMAGE = "localhost/rehearsal-test:1"

pytestmark = [pytest.mark.slow, pytest.mark.podman]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Give a stand-in whose podman has a storage of its own, with a small image in it."""
    need_root()
    need("podman", "busybox", "runc", "tar")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONFIGURATION)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    env = {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    podman = ("env", *(f"{k}={v}" for k, v in env.items()), "podman")
    imported(folder, podman)
    made = Stand(folder / "stand", engine="podman", podman=podman, terminate_grace_s=2.0).ready()
    yield made
    made.server.close()
    left = subprocess.run([*podman, "ps", "--all", "--quiet"], capture_output=True, check=False)
    subprocess.run([*podman, "rmi", "--all", "--force"], capture_output=True, check=False)
    assert left.stdout == b""


def imported(folder: Path, podman: tuple[str, ...]) -> None:
    tree = folder / "tree"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(str(shutil.which("busybox")), tree / "bin" / "busybox")
    for name in ("sh", "sleep", "env", "tail", "echo", "dd"):
        (tree / "bin" / name).symlink_to("busybox")
    subprocess.run(["tar", "-cf", folder / "tree.tar", "-C", tree, "."], check=True)
    line = [
        *podman,
        "import",
        "--quiet",
        "--change",
        "ENV PATH=/bin",
        str(folder / "tree.tar"),
        IMAGE,
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        lack(f"a working podman import: {done.stderr[-500:]}")


def test_a_container_gets_its_command_and_its_variables(stand: Stand) -> None:
    env = [{"name": "A", "value": "x y"}, {"name": "B", "value": "two\nlines"}]
    script = 'echo "$A" "$B" "$0" $AWS_BATCH_JOB_ATTEMPT; exit 3'
    definition = stand.define(["sh", "-c", script, "$(id)"], environment=env, image=IMAGE)

    job = stand.end(stand.submit(definition))

    assert stand.lines(job) == ["x y two", "lines $(id) 1"]
    assert job["container"]["exitCode"] == 3


def test_an_image_that_is_not_there_is_told(stand: Stand) -> None:
    job = stand.end(stand.submit(stand.define(["sh"], image="localhost/nothing:1")))

    assert job["status"] == "FAILED"
    assert job["container"]["reason"].startswith("CannotPullContainerError")


def test_too_much_memory_ends_a_container(stand: Stand) -> None:
    command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"]
    job = stand.end(stand.submit(stand.define(command, image=IMAGE)))

    assert job["container"]["exitCode"] == 137
    assert job["container"]["reason"].startswith("OutOfMemoryError: Container killed")


def test_a_container_that_does_not_hear_sigterm_is_killed(stand: Stand) -> None:
    definition = stand.define(["sh", "-c", "echo up; sleep 60"], image=IMAGE)
    job_id = stand.submit(definition)
    stand.wrote(job_id, "up")

    stand.batch.terminate_job(jobId=job_id, reason="enough")

    job = stand.end(job_id)
    assert (job["statusReason"], job["container"]["exitCode"]) == ("enough", 137)


def test_closing_ends_containers(stand: Stand) -> None:
    """The end of the fixture looks whether anything is left."""
    job_id = stand.submit(stand.define(["sh", "-c", "echo up; sleep 600"], image=IMAGE))

    assert stand.wrote(job_id, "up")["status"] == "RUNNING"
