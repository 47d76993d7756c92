"""Plain Jobs on a real control plane of Kubernetes, or on the cluster of RUNSPEC_KUBECONFIG.

The nodes of the control plane are programs of ours.
"""

from __future__ import annotations

import base64
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.stream import stream

from tests.support.kubernetes.api import Api
from tests.support.kubernetes.cluster import (
    GIVEN,
    api,
    built_programs,
    control_plane,
    kubernetes,
    namespace,
)
from tests.support.kubernetes.control_plane import ControlPlane, NodePrograms, has_nodes
from tests.support.kubernetes.jobs import (
    await_job,
    await_phase,
    end_of,
    jobs_of,
    objects_of,
    pods_of,
    run_job,
    shell_job,
)
from tests.support.wait import until

__all__ = ["api", "control_plane", "kubernetes", "namespace"]
pytestmark = [pytest.mark.slow, pytest.mark.matrix]
ours = pytest.mark.skipif(GIVEN in os.environ, reason="it is a fact of the node program")


def test_job_runs_to_its_end(api: Api, namespace: str) -> None:
    """A Job succeeds as its program does, and its log is read through the API server."""
    job = run_job(api, namespace, shell_job("works", "echo hello; echo well >/dev/termination-log"))

    (pod,) = pods_of(api, namespace, "works")
    assert job["status"]["succeeded"] == 1
    assert (end_of(pod)["exitCode"], end_of(pod)["message"]) == (0, "well\n")
    assert api.read_log(namespace, pod["metadata"]["name"]) == "hello\n"


@ours
def test_a_control_plane_without_nodes_gets_programs_of_ours(tmp_path: Path) -> None:
    """As the one of RUNSPEC_KUBECONFIG may be."""
    with ControlPlane(tmp_path / "plane", built_programs(), nodes=0) as plane:
        assert not has_nodes(plane.kubeconfig)
        with (
            NodePrograms(tmp_path / "nodes", plane.kubeconfig),
            Api.opened(plane.kubeconfig) as api,
        ):
            job = run_job(api, "default", shell_job("works", "exit 0"))

    assert job["status"]["succeeded"] == 1


def test_failure_is_tried_again(api: Api, namespace: str) -> None:
    """A Job whose program fails gets as many pods as it has attempts, and says why it has failed."""
    job = run_job(api, namespace, shell_job("fails", "exit 3", attempts=2))

    assert [end_of(pod)["exitCode"] for pod in pods_of(api, namespace, "fails")] == [3, 3]
    assert job["status"]["failed"] == 2
    assert job["status"]["conditions"][0]["reason"] == "BackoffLimitExceeded"


def test_deletion_ends_the_program(api: Api, namespace: str) -> None:
    """A Job that is deleted is gone when its program has had its grace; another one's uid deletes nothing."""
    script = "trap 'echo stopping; exit 0' TERM; echo begun; while :; do sleep 0.1; done"
    made = api.must("POST", jobs_of(namespace), shell_job("ends", script))
    pod = await_phase(api, namespace, "ends", "Running")
    path, name = f"{jobs_of(namespace)}/ends", pod["metadata"]["name"]
    logs: list[str] = []
    reader = threading.Thread(
        target=lambda: logs.append(api.read_log(namespace, name, follow="true"))
    )
    reader.start()
    until(lambda: "begun" in api.read_log(namespace, name))

    other = api.call("DELETE", path, {"preconditions": {"uid": "another"}})
    foreground = {"propagationPolicy": "Foreground"}
    own = {**foreground, "preconditions": {"uid": made["metadata"]["uid"]}}
    deleted = api.call("DELETE", path, own)

    until(lambda: api.call("GET", path).status == 404)
    reader.join()
    assert (other.status, deleted.status) == (409, 200)
    assert logs == ["begun\nstopping\n"]
    assert pods_of(api, namespace, "ends") == []


def test_program_that_does_not_end_is_killed(api: Api, namespace: str) -> None:
    """A container that ignores SIGTERM is killed after the grace of its pod."""
    stubborn = {"terminationGracePeriodSeconds": 1}
    api.must(
        "POST", jobs_of(namespace), shell_job("stays", "trap '' TERM; sleep 600", pod=stubborn)
    )
    await_phase(api, namespace, "stays", "Running")

    api.must("DELETE", f"{jobs_of(namespace)}/stays", {"propagationPolicy": "Foreground"})

    until(lambda: pods_of(api, namespace, "stays") == [], limit_s=30.0)


def test_parts_of_a_log(api: Api, namespace: str) -> None:
    """The API server gives a log from a time on, its last lines, its first bytes, and the time of each line."""
    run_job(api, namespace, shell_job("talks", "echo one; sleep 1.2; echo two; printf three"))
    name = pods_of(api, namespace, "talks")[0]["metadata"]["name"]

    timed = api.read_log(namespace, name, timestamps="true").splitlines()
    times = [line.split(" ")[0] for line in timed]

    assert [line.split(" ")[1] for line in timed] == ["one", "two", "three"]
    assert api.read_log(namespace, name, sinceTime=times[1]).split() == ["two", "three"]
    assert api.read_log(namespace, name, tailLines=1).strip() == "three"
    assert api.read_log(namespace, name, tailLines=0) == ""
    assert api.read_log(namespace, name, limitBytes=5) == "one\nt"
    assert api.read_log(namespace, name, follow="true").split() == ["one", "two", "three"]


def test_values_from_other_objects(api: Api, namespace: str) -> None:
    """A container gets what its pod names: fields, secrets, config maps, limits, and their files."""
    secret = {"metadata": {"name": "keys"}, "stringData": {"token": "hush"}}
    data = {"greeting": "good day"}
    binary = {"bytes": base64.b64encode(b"\0\1").decode()}
    config = {"metadata": {"name": "words"}, "data": data, "binaryData": binary}
    api.must("POST", objects_of(namespace, "secrets"), secret)
    api.must("POST", objects_of(namespace, "configmaps"), config)
    key = {"name": "keys", "key": "token"}
    sources = {
        "NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "ADDRESS": {"fieldRef": {"fieldPath": "status.podIP"}},
        "NOTE": {"fieldRef": {"fieldPath": "metadata.annotations['none']"}},
        "TOKEN": {"secretKeyRef": key},
        "GREETING": {"configMapKeyRef": {"name": "words", "key": "greeting"}},
        "MEMORY": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
    }
    env = [{"name": name, "valueFrom": source} for name, source in sources.items()]
    env.append({"name": "ALL", "value": "$(TOKEN) $$(TOKEN)"})
    volumes = [
        {"name": "words", "configMap": {"name": "words"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "work", "emptyDir": {}},
    ]
    mounts = [
        {"name": "words", "mountPath": "/words"},
        {"name": "keys", "mountPath": "/keys"},
        {"name": "work", "mountPath": "/work-here"},
        {"name": "work", "mountPath": "/below", "subPath": "part"},
    ]
    script = """
        [ "$NAME" = "$(hostname)" ] && grep -q "^$ADDRESS" /etc/hosts && echo itself
        echo "$TOKEN; $GREETING; $MEMORY; $ALL; [$NOTE]"
        cat /words/greeting /keys/token; wc -c </words/bytes
        touch /below/file && ls /work-here/part
        touch /words/new 2>/dev/null || echo refused
    """
    container: dict[str, Any] = {
        "env": env,
        "volumeMounts": mounts,
        "resources": {"limits": {"memory": "64Mi"}},
    }

    run_job(api, namespace, shell_job("reads", script, pod={"volumes": volumes}, **container))

    pod = pods_of(api, namespace, "reads")[0]["metadata"]["name"]
    lines = api.read_log(namespace, pod).splitlines()
    assert lines == [
        "itself",
        "hush; good day; 64; hush $(TOKEN); []",
        "good dayhush2",
        "file",
        "refused",
    ]


def test_user_without_rights(api: Api, namespace: str) -> None:
    """A pod by the restricted standard runs as its user, who can write to its volumes."""
    user = {"runAsNonRoot": True, "runAsUser": 1234, "runAsGroup": 1234, "fsGroup": 1234}
    pod = {
        "securityContext": {**user, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "work", "emptyDir": {}}],
    }
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    mounts = [{"name": "work", "mountPath": "/mine"}]
    script = "id -u; id -G; touch /mine/x && echo written; touch /etc/x 2>/dev/null || echo refused"

    job = shell_job("limited", script, pod=pod, securityContext=rights, volumeMounts=mounts)
    run_job(api, namespace, job)

    name = pods_of(api, namespace, "limited")[0]["metadata"]["name"]
    assert api.read_log(namespace, name).split() == ["1234", "1234", "written", "refused"]


def test_what_a_pod_waits_for(api: Api, namespace: str) -> None:
    """A container whose secret is not there waits, says so, and starts when it is made."""
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "late", "key": "token"}}}]
    api.must("POST", jobs_of(namespace), shell_job("waits", "echo $TOKEN", env=env))

    def reason() -> str:
        pods = pods_of(api, namespace, "waits")
        states = pods[0]["status"].get("containerStatuses", ()) if pods else ()
        return str(states[0]["state"].get("waiting", {}).get("reason")) if states else ""

    until(lambda: reason() == "CreateContainerConfigError")
    secret = {"metadata": {"name": "late"}, "stringData": {"token": "there"}}
    api.must("POST", objects_of(namespace, "secrets"), secret)
    await_job(api, namespace, "waits")

    pod = pods_of(api, namespace, "waits")[0]["metadata"]["name"]
    assert api.read_log(namespace, pod) == "there\n"


def test_what_no_node_has(api: Api, namespace: str) -> None:
    """A pod that fits no node stays pending, and the scheduler says why."""
    room = {"limits": {"cpu": "1000"}}
    api.must("POST", jobs_of(namespace), shell_job("large", "true", resources=room))

    def unschedulable() -> str:
        pods = pods_of(api, namespace, "large")
        conditions = pods[0]["status"].get("conditions", ()) if pods else ()
        return "".join(each.get("message", "") for each in conditions)

    assert "Insufficient cpu" in until(unschedulable)


def test_image_that_cannot_be_pulled(api: Api, namespace: str) -> None:
    """A pod whose image is missing says so, and its log says what it waits for."""
    image = "localhost/missing:latest"
    api.must("POST", jobs_of(namespace), shell_job("pulls", "true", image=image))

    def waiting() -> str:
        pods = pods_of(api, namespace, "pulls")
        states = pods[0]["status"].get("containerStatuses", ()) if pods else ()
        return str(states[0]["state"].get("waiting", {}).get("reason")) if states else ""

    until(lambda: waiting() == "ImagePullBackOff")
    path = (
        f"{objects_of(namespace, 'pods')}/{pods_of(api, namespace, 'pulls')[0]['metadata']['name']}"
    )
    answer = api.call("GET", f"{path}/log")

    assert answer.status == 400
    assert answer.body["message"].endswith("is waiting to start: trying and failing to pull image")


def test_command_in_a_pod(api: Api, namespace: str) -> None:
    """A command runs in a container through the API server, with its environment and its streams."""
    env = [{"name": "WORD", "value": "here"}]
    api.must("POST", jobs_of(namespace), shell_job("stays", "sleep 600", env=env))
    pod = await_phase(api, namespace, "stays", "Running")["metadata"]["name"]
    script = "read line; echo $WORD $line $(hostname); echo bad >&2; exit 3"
    client: Any = CoreV1Api(api.client)

    link = stream(
        client.connect_get_namespaced_pod_exec,
        pod,
        namespace,
        command=["/bin/sh", "-c", script],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    link.write_stdin("said\n")
    link.run_forever(timeout=30)

    said = link.read_stdout(), link.read_stderr(), link.returncode
    link.sock.shutdown()

    assert said == (f"here said {pod}\n", "bad\n", 3)


@ours
def test_lost_node(tmp_path: Path) -> None:
    """A pod of a node that is lost is to be deleted, and is there until the node is back.

    Where all nodes are lost, none is given up: there are two.
    """
    gone = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    tolerant = {"tolerations": [{**gone, "tolerationSeconds": 1}]}
    with (
        ControlPlane(tmp_path, built_programs(), nodes=2, lost_s=3) as plane,
        Api.opened(plane.kubeconfig) as api,
    ):
        job = shell_job("endures", "sleep 600", pod=tolerant, attempts=3)
        api.must("POST", jobs_of("default"), job)
        pod = await_phase(api, "default", "endures", "Running")
        path = f"{objects_of('default', 'pods')}/{pod['metadata']['name']}"

        plane.lose_node(pod["spec"]["nodeName"])
        until(lambda: "deletionTimestamp" in api.get(path)["metadata"])
        while_lost = api.get(path)["status"]
        plane.start_node(pod["spec"]["nodeName"])
        until(lambda: api.call("GET", path).status == 404)

    assert while_lost["phase"] == "Running"
    ready = [each["status"] for each in while_lost["conditions"] if each["type"] == "Ready"]
    assert ready == ["False"]


@ours
def test_claim_shows_a_folder(api: Api, namespace: str, tmp_path: Path) -> None:
    """What pods write to a claim is in the folder of the volume that it is bound to."""
    claim = objects_of(namespace, "persistentvolumeclaims")
    shared = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
    size = {"storage": "1Gi"}
    source = {"hostPath": {"path": str(tmp_path)}}
    volume = {"metadata": {"name": namespace}, "spec": {**shared, **source, "capacity": size}}
    wanted = {"volumeName": namespace, "resources": {"requests": size}}
    api.must("POST", "/api/v1/persistentvolumes", volume)
    api.must("POST", claim, {"metadata": {"name": "data"}, "spec": {**shared, **wanted}})
    pod = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    mounts = [{"name": "data", "mountPath": "/mnt/data", "subPath": "results"}]

    script = "echo 42 >/mnt/data/answer"
    run_job(api, namespace, shell_job("writes", script, pod=pod, volumeMounts=mounts))

    assert (tmp_path / "results" / "answer").read_text() == "42\n"


@ours
def test_files_are_private(kubernetes: Path) -> None:
    """Nobody else reads the token of a kubeconfig."""
    modes = {path.name: path.stat().st_mode & 0o777 for path in kubernetes.parent.iterdir()}
    files = {name: mode for name, mode in modes.items() if name.endswith(("kubeconfig", "csv"))}

    assert len(files) == 6
    assert set(files.values()) == {0o600}
