"""What befalls pods and their nodes, and what is then said of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.kubernetes.bench import indexed
from tests.emulators.kubernetes.stand import Stand, until

pytestmark = pytest.mark.process
SLEEPS = "sleep 600"


def target(pod: Any) -> tuple[str, str]:
    """Return why a pod was disrupted."""
    (found,) = (c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")
    return found["reason"], found["message"]


def names(stand: Stand) -> list[str]:
    return [p.metadata.name for p in stand.core.list_namespaced_pod("default").items]


def test_a_pod_of_a_node_that_shuts_down_has_failed(stand: Stand) -> None:
    stand.run("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    node = stand.running()["spec"]["nodeName"]
    until(lambda: "ready" in stand.log())

    stand.tell("POST", "reclaim", {"pod": "p", "gone_s": 3, "comes_back_s": 0.1})

    until(lambda: stand.pod()["status"]["phase"] == "Failed")
    pod = stand.pod()
    message = "Pod was terminated in response to imminent node shutdown."
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("Terminated", message)
    assert target(pod) == ("TerminationByKubelet", message)
    until(lambda: not names(stand))  # "PodGC: node no longer exists"
    until(lambda: node in [n.metadata.name for n in stand.core.list_node().items])


def test_a_pod_that_succeeds_while_its_node_shuts_down_has_succeeded(stand: Stand) -> None:
    stand.run("trap 'sleep 0.5; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: stand.pod()["status"]["phase"] == "Running" and "ready" in stand.log())

    stand.tell("POST", "reclaim", {"pod": "p", "gone_s": 3, "comes_back_s": 0.1})

    types = {c["type"] for c in stand.pod()["status"]["conditions"]}
    assert "DisruptionTarget" not in types  # until its containers have ended
    pod = stand.ended()
    assert (pod["status"]["phase"], "reason" in pod["status"]) == ("Succeeded", False)
    assert target(pod)[0] == "TerminationByKubelet"


def test_pods_of_a_lost_node_are_deleted_and_replaced(stand: Stand) -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    body = indexed(completions=1, backoffLimitPerIndex=0, podFailurePolicy={"rules": rules})
    body["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "600"]
    stand.batch.create_namespaced_job("default", body)
    until(lambda: stand.job()["status"].get("ready") == 1)
    (first,) = names(stand)

    stand.tell("POST", "lose", {"pod": first})
    until(lambda: "deletionTimestamp" in stand.pod(first)["metadata"])
    pod = stand.pod(first)
    assert target(pod)[0] == "DeletionByTaintManager"
    assert pod["status"]["phase"] == "Running"  # nobody knows better, and the job waits
    assert stand.job()["status"]["terminating"] == 1

    stand.tell("POST", "find-again", {"node": pod["spec"]["nodeName"]})
    until(lambda: names(stand) not in ([], [first]) and stand.job()["status"].get("ready") == 1)
    assert stand.job()["status"].get("failed", 0) == 0


def test_a_pod_is_evicted_by_its_node(stand: Stand) -> None:
    stand.run(SLEEPS)
    stand.running()

    stand.tell("POST", "evict", {"pod": "p"})

    pod = stand.ended()
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    assert target(pod)[0] == "TerminationByKubelet"


def test_a_pod_that_takes_too_much_disk_is_evicted_and_not_disrupted(stand: Stand) -> None:
    stand.run(SLEEPS, container={"resources": {"limits": {"ephemeral-storage": "1Gi"}}})
    stand.running()

    stand.tell("POST", "evict", {"pod": "p", "disk": True})

    status = stand.ended()["status"]
    why = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    assert (status["reason"], status["message"]) == ("Evicted", why)
    assert "DisruptionTarget" not in {c["type"] for c in status["conditions"]}


def test_a_container_that_never_ran_has_no_times(stand: Stand) -> None:
    body = indexed(completions=1)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "registry/missing:1"
    stand.batch.create_namespaced_job("default", body)
    until(lambda: stand.pod(names(stand)[0])["status"].get("containerStatuses"))
    (first,) = names(stand)
    meta = {"finalizers": ["batch.kubernetes.io/job-tracking", "test/kept"]}
    stand.core.patch_namespaced_pod(first, "default", {"metadata": meta})

    stand.core.delete_namespaced_pod(first, "default")

    state = stand.ended(first)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (137, "ContainerStatusUnknown")
    assert state.keys() == {"exitCode", "reason", "message"}
    stand.core.patch_namespaced_pod(first, "default", {"metadata": {"finalizers": []}})


def test_a_pod_is_evicted_by_the_api(stand: Stand) -> None:
    stand.run("trap 'sleep 0.5' TERM; sleep 600 & wait $!; wait")
    stand.running()

    stand.core.create_namespaced_pod_eviction("p", "default", {"metadata": {"name": "p"}})

    assert target(stand.pod())[0] == "EvictionByEvictionAPI"
    until(lambda: not names(stand))


def test_a_container_that_takes_too_much_memory_is_killed(stand: Stand) -> None:
    stand.run(SLEEPS)
    stand.running()

    stand.tell("POST", "oom", {"pod": "p"})

    state = stand.state()
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")


def test_a_second_deletion_may_shorten_the_grace(stand: Stand) -> None:
    stand.run("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: stand.pod()["status"]["phase"] == "Running" and "ready" in stand.log())
    pids = [pid for pod in stand.tell("GET", "pods") for pid in pod["pids"]]

    stand.core.delete_namespaced_pod("p", "default")
    stand.core.delete_namespaced_pod("p", "default", grace_period_seconds=0)

    assert not names(stand)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_signal_is_an_exit_code(stand: Stand) -> None:
    # of two "$" in a command, the kubelet leaves one
    stand.run("kill -9 $$$$")

    assert (stand.state()["exitCode"], stand.state()["reason"]) == (137, "Error")


@pytest.mark.parametrize("own_root", [False, True])
def test_a_command_that_is_not_there_cannot_be_started(
    make: Callable[..., Stand], own_root: bool
) -> None:
    stand = make(own_root=own_root)
    stand.run("", container={"command": ["/no/such/program"]})

    state = stand.state()

    assert (state["exitCode"], state["reason"]) == (128, "StartError")
    assert "/no/such/program" in state["message"]


def test_an_image_that_cannot_be_pulled_keeps_a_pod_waiting(stand: Stand) -> None:
    stand.run("true", container={"image": "registry/missing:1"})

    def reason() -> str:
        statuses = stand.pod()["status"].get("containerStatuses") or [{"state": {}}]
        return str(statuses[0]["state"].get("waiting", {}).get("reason"))

    until(lambda: reason() == "ImagePullBackOff")
    events = stand.core.list_namespaced_event("default").items
    assert {"Pulling", "Failed", "BackOff"} <= {e.reason for e in events}
    stand.core.delete_namespaced_pod("p", "default")
    until(lambda: not names(stand))


def test_a_pod_waits_for_the_secret_that_it_needs(stand: Stand) -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    stand.run("echo $K", container={"env": [{"name": "K", "valueFrom": source}]})

    def waiting() -> Any:
        statuses = stand.pod()["status"].get("containerStatuses") or [{"state": {}}]
        return statuses[0]["state"].get("waiting", {})

    until(lambda: waiting().get("reason") == "CreateContainerConfigError")
    assert waiting()["message"] == 'secret "s" not found'
    stand.core.create_namespaced_secret(
        "default", {"metadata": {"name": "s"}, "stringData": {"k": "v"}}
    )
    stand.ended()
    assert stand.log() == "v\n"


def test_mounts_are_where_the_pod_wants_them(make: Callable[..., Stand]) -> None:
    stand = make(own_root=True)
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "c"}, "spec": claim}
    stand.core.create_namespaced_persistent_volume_claim("default", body)
    volumes = [
        {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [{"name": "c", "mountPath": "/shared"}, {"name": "shm", "mountPath": "/dev/shm"}]
    stand.core.create_namespaced_config_map(
        "default", {"metadata": {"name": "m"}, "data": {"x": "1"}}
    )
    volumes.append({"name": "m", "configMap": {"name": "m"}})
    mounts.append({"name": "m", "mountPath": "/files"})
    script = "pwd; echo $$ >> /shared/all; wc -l < /shared/all; echo 1 > /dev/shm/x; echo x > /only"
    script += "; if echo 2 > /files/x; then exit 1; fi 2> /dev/null"

    for name in ("a", "b"):
        stand.run(
            script, name, container={"volumeMounts": mounts, "workingDir": "/here"}, volumes=volumes
        )
        assert stand.state(name)["exitCode"] == 0, stand.log(name)

    assert (stand.log("a"), stand.log("b")) == ("/here\n1\n", "/here\n2\n")


@pytest.mark.parametrize("image", ["x", "registry/missing:1"])
def test_a_pod_is_ended_at_its_deadline(make: Callable[..., Stand], image: str) -> None:
    """Which counts from the time at which the node takes it, before the image is pulled."""
    stand = make(grace_most_s=0.1)
    stand.run(
        "trap '' TERM; while :; do sleep 0.05; done",
        container={"image": image},
        activeDeadlineSeconds=1,
    )

    pod = stand.ended()

    message = "Pod was active on the node longer than the specified deadline"
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("DeadlineExceeded", message)
    assert stand.state()["exitCode"] == 137
    assert not [c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"]
