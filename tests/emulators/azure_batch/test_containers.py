"""Tasks with containerSettings run in real containers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.test_podman import CONFIGURATION, STORAGE
from tests.e2e.test_rehearsal_podman import IMAGE, imported
from tests.emulators.azure_batch.stand import MACHINE, Stand, until
from tests.support.requirements import need, need_root

pytestmark = [pytest.mark.slow, pytest.mark.podman]
# The devices of GPUs of AMD, which no emulated machine has.
OPTIONS = "--rm --env GIVEN=x --device=/dev/kfd --device=/dev/dri"
SETTINGS = {"imageName": IMAGE, "containerRunOptions": OPTIONS}
ROOT = {"autoUser": {"scope": "pool", "elevationLevel": "admin"}}


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Return an emulator whose podman has a storage of its own, with a small image in it."""
    need_root()
    need("podman", "busybox", "runc", "tar")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONFIGURATION)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    (folder / "share").mkdir()
    (folder / "share" / "x").write_text("shared\n")
    names = ("CONTAINERS_CONF", "containers.conf"), ("CONTAINERS_STORAGE_CONF", "storage.conf")
    podman = ("env", *(f"{name}={folder / file}" for name, file in names), "podman")
    imported(folder, podman)
    settings = {"engine": "podman", "podman": podman, "mounts": {"data": str(folder / "share")}}
    made = Stand(folder / "stand", **settings)
    machine = {**MACHINE, "containerConfiguration": {"type": "dockerCompatible"}}
    mount = {"nfsMountConfiguration": {"source": "10.0.0.4:/x", "relativeMountPath": "data"}}
    low = {"targetDedicatedNodes": 0, "targetLowPriorityNodes": 1}
    made.ready(virtualMachineConfiguration=machine, mountConfiguration=[mount], **low)
    yield made
    made.server.close()
    left = subprocess.run([*podman, "ps", "--all", "--quiet"], capture_output=True, check=False)
    subprocess.run([*podman, "rmi", "--all", "--force"], capture_output=True, check=False)
    assert left.stdout == b""


def test_a_container_has_the_tasks_folder_its_variables_and_the_mounts(stand: Stand) -> None:
    path = "$AZ_BATCH_NODE_MOUNTS_DIR/data/x"
    stand.sh(
        f"echo $AZ_BATCH_TASK_ID $GIVEN > file; tail {path}; exit 3",
        "inside",
        containerSettings=SETTINGS,
    )

    info = stand.end("inside")["executionInfo"]

    assert info["exitCode"] == 3
    assert stand.text("inside", "wd/file") == "inside x\n"
    assert stand.text("inside") == "shared\n"


def test_a_preempted_container_is_gone(stand: Stand) -> None:
    wait = "echo begun; test -e $AZ_BATCH_TASK_DIR/go || sleep 70"
    stand.sh(wait, "lost", containerSettings=SETTINGS)
    stand.wrote("begun", "lost")

    stand.server.control("POST", "preempt", {"jobId": "job", "taskId": "lost"})

    until(lambda: stand.truth("lost")["starts"] == 2)
    stand.wrote("begun", "lost")
    stand.client.terminate_task("job", "lost")
    stand.end("lost")


def test_an_image_that_is_not_there_fails_the_task(stand: Stand) -> None:
    settings = {"imageName": "localhost/none:1", "containerRunOptions": "--pull never"}
    stand.sh("true", "none", containerSettings=settings)

    assert stand.end("none")["executionInfo"]["result"] == "failure"


def test_a_container_belongs_to_root_where_its_task_asks_for_it_and_else_to_nobody(
    stand: Stand,
) -> None:
    """Who is not root makes folders in that of the task, and nowhere else in the image."""
    script = "mkdir $AZ_BATCH_TASK_WORKING_DIR/own && mkdir /job && echo made"
    stand.sh(script, "plain", containerSettings=SETTINGS)
    stand.sh(script, "admin", containerSettings=SETTINGS, userIdentity=ROOT)

    assert stand.end("plain")["executionInfo"]["exitCode"] == 1
    assert "denied" in stand.text("plain", "stderr.txt")
    assert stand.end("admin")["executionInfo"]["exitCode"] == 0
    assert stand.text("admin") == "made\n"


def test_variables_may_have_lines(stand: Stand) -> None:
    lines = "a\n b=c\n"
    stand.sh(
        'echo "$LINES" $GIVEN',
        "lines",
        containerSettings=SETTINGS,
        environmentSettings=[{"name": "LINES", "value": lines}],
    )

    assert stand.end("lines")["executionInfo"]["exitCode"] == 0
    assert stand.text("lines") == f"{lines} x\n"
