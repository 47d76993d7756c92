"""The official client of Kubernetes with the emulator: jobs, pods, logs, commands and deletion."""

from __future__ import annotations

import stat
from typing import Any

import pytest
from kubernetes.client import ApiException
from kubernetes.stream import stream as open_stream

from tests.emulators.kubernetes.bench import indexed
from tests.emulators.kubernetes.stand import Stand, until

pytestmark = pytest.mark.process


def test_a_job_runs_and_its_indexes_are_counted(stand: Stand) -> None:
    body = indexed(completions=3, backoffLimitPerIndex=0)
    script = "echo index $JOB_COMPLETION_INDEX; test $JOB_COMPLETION_INDEX != 1"
    body["spec"]["template"]["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", script]

    stand.batch.create_namespaced_job("default", body, field_validation="Strict")
    until(lambda: any(c["type"] == "Failed" for c in stand.job()["status"].get("conditions", ())))

    status = stand.job()["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert (status["succeeded"], status["failed"], status["ready"]) == (2, 1, 0)
    assert [c["reason"] for c in status["conditions"]] == ["FailedIndexes"] * 2


def test_a_pod_has_its_variables_files_and_termination_message(stand: Stand) -> None:
    stand.core.create_namespaced_config_map(
        "default", {"metadata": {"name": "m"}, "data": {"x": "of map"}}
    )
    stand.core.create_namespaced_secret(
        "default", {"metadata": {"name": "s"}, "stringData": {"k": "of secret"}}
    )
    env = [
        {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "TWICE", "value": "$(K)-$(K)"},
    ]
    mount = {"name": "m", "mountPath": "/data/m"}
    script = "echo $K $IP $TWICE $(cat /data/m/x); echo why > /dev/termination-log; exit 3"

    volume = {"name": "m", "configMap": {"name": "m"}}
    stand.run(script, container={"env": env, "volumeMounts": [mount]}, volumes=[volume])

    state = stand.state()
    assert (state["exitCode"], state["reason"], state["message"]) == (3, "Error", "why\n")
    address = stand.pod()["status"]["podIP"]
    assert stand.log() == f"of secret {address} of secret-of secret of map\n"


def test_a_pod_that_is_deleted_gets_sigterm_and_then_sigkill(stand: Stand) -> None:
    stand.run("trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: stand.pod()["status"]["phase"] == "Running" and "ready" in stand.log())
    follow = stand.core.read_namespaced_pod_log("p", "default", follow=True, _preload_content=False)

    stand.core.delete_namespaced_pod("p", "default", grace_period_seconds=1)

    assert b"".join(follow.stream()) == b"ready\nterm\n"
    follow.release_conn()
    until(lambda: not stand.core.list_namespaced_pod("default").items)


def test_a_command_runs_in_a_pod(stand: Stand) -> None:
    stand.run("sleep 600", container={"env": [{"name": "A", "value": "1"}]})
    stand.running()

    link: Any = open_stream(
        stand.core.connect_get_namespaced_pod_exec,
        "p",
        "default",
        command=["/bin/sh", "-c", "read line; echo $A $line; echo bad >&2; exit 4"],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    link.write_stdin("word\n")
    link.run_forever(timeout=30)

    assert (link.read_stdout(), link.read_stderr(), link.returncode) == ("1 word\n", "bad\n", 4)


def test_nobody_gets_in_without_the_token(stand: Stand) -> None:
    with pytest.raises(ApiException) as refused:
        type(stand.core)(stand.login("other")).list_namespaced_pod("default")

    assert refused.value.status == 401
    assert stat.S_IMODE(stand.server.kubeconfig.stat().st_mode) == 0o600
