"""Pods whose containers are real ones."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.test_podman import CONFIGURATION, STORAGE
from tests.e2e.test_rehearsal_podman import IMAGE, imported
from tests.emulators.kubernetes.stand import Stand, until
from tests.support.requirements import need, need_root

pytestmark = [pytest.mark.slow, pytest.mark.podman]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Return a cluster whose podman has a storage of its own, with a small image in it."""
    need_root()
    need("podman", "busybox", "runc", "tar")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONFIGURATION)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    names = ("CONTAINERS_CONF", "containers.conf"), ("CONTAINERS_STORAGE_CONF", "storage.conf")
    podman = ("env", *(f"{name}={folder / file}" for name, file in names), "podman")
    imported(folder, podman)
    made = Stand(folder / "stand", engine="podman", podman=podman)
    yield made
    made.close()
    left = subprocess.run([*podman, "ps", "--all", "--quiet"], capture_output=True, check=False)
    subprocess.run([*podman, "rmi", "--all", "--force"], capture_output=True, check=False)
    assert left.stdout == b""


def test_a_container_has_its_mounts_variables_and_message(stand: Stand) -> None:
    mount = {"name": "v", "mountPath": "/data"}
    script = "echo $A; pwd; echo x > /data/x; ls /data; echo why > /dev/termination-log; exit 3"
    container = {"image": IMAGE, "env": [{"name": "A", "value": "1"}], "volumeMounts": [mount]}

    stand.run(script, "a", container={**container, "workingDir": "/data"}, volumes=[{"name": "v"}])

    state = stand.state("a")
    assert stand.log("a") == "1\n/data\nx\n"
    assert (state["exitCode"], state["message"]) == (3, "why\n")


def test_a_container_ends_when_its_pod_is_deleted(stand: Stand) -> None:
    stand.run(
        "trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
        "b",
        container={"image": IMAGE},
    )
    stand.running("b")
    until(lambda: "ready" in stand.log("b"))
    follow = stand.core.read_namespaced_pod_log("b", "default", follow=True, _preload_content=False)

    stand.core.delete_namespaced_pod("b", "default")

    assert b"".join(follow.stream()) == b"ready\nterm\n"


def test_an_image_that_is_nowhere_is_not_pulled(stand: Stand) -> None:
    stand.run("true", "c", container={"image": "127.0.0.1:9/none:1"})

    def reason() -> str:
        statuses = stand.pod("c")["status"].get("containerStatuses") or [{"state": {}}]
        return str(statuses[0]["state"].get("waiting", {}).get("reason"))

    until(lambda: reason() == "ImagePullBackOff")
    stand.core.delete_namespaced_pod("c", "default")
