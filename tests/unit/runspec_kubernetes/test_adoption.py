"""Without a store, the state of a run is in a ConfigMap, with which another machine adopts it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.provider import Conflict, State, SupportsAdoption
from runspec_kubernetes import client
from runspec_kubernetes.job import FAILURES, INDEX
from runspec_kubernetes.naming import delete
from runspec_kubernetes.options import KubernetesOptions
from tests.unit.runspec_kubernetes.fake_cluster import RUN, FakeCluster

CORE = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def bare() -> client.KubernetesClient:
    """A client of a profile without a store."""
    options = KubernetesOptions()
    made = client.KubernetesClient(options)
    made.session = made.runs.session = FakeCluster(options)
    return made


def cluster(bare: client.KubernetesClient) -> FakeCluster:
    assert isinstance(bare.session, FakeCluster)
    return bare.session


def test_a_state_is_kept_replaced_and_listed(bare: client.KubernetesClient) -> None:
    assert isinstance(bare, SupportsAdoption)
    assert bare.kept_state(RUN) is None
    bare.keep_state(RUN, b"one")
    bare.keep_state(RUN, b"\x00\xff two")

    assert bare.kept_state(RUN) == b"\x00\xff two"
    assert bare.kept_runs() == [RUN]
    assert [sent[0] for sent in cluster(bare).sent] == ["POST", "PATCH"]  # it is always there


def test_an_object_that_is_replaced_while_it_is_deleted_is_deleted(
    bare: client.KubernetesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cluster(bare).add("configmaps", RUN, RUN, kind="ConfigMap")
    send = cluster(bare).send

    def replaced(method: str, path: str, *rest: Any, **more: Any) -> Any:
        if method == "DELETE" and made["metadata"]["uid"] != "another":
            made["metadata"]["uid"] = "another"
        return send(method, path, *rest, **more)

    monkeypatch.setattr(cluster(bare), "send", replaced)

    bare.call(delete(bare.options, "configmaps", RUN, RUN))

    assert cluster(bare).objects == {}


def test_the_state_goes_with_the_record_of_the_run(bare: client.KubernetesClient) -> None:
    cluster(bare).add("configmaps", RUN, RUN, kind="ConfigMap")
    bare.keep_state(RUN, b"one")

    bare.call(delete(bare.options, "configmaps", RUN, RUN))

    assert cluster(bare).objects == {}


def test_a_state_that_no_config_map_holds_is_not_kept(bare: client.KubernetesClient) -> None:
    bare.keep_state(RUN, bytes(client.MOST_KEPT + 1))

    assert bare.kept_runs() == []


def test_a_config_map_of_somebody_else_stays(bare: client.KubernetesClient) -> None:
    name = f"{RUN}-state"
    cluster(bare).add("configmaps", name, None, kind="ConfigMap", metadata={"labels": {}})

    with pytest.raises(Conflict):
        bare.keep_state(RUN, b"one")


@pytest.mark.parametrize("said", [None, "", "0/2/0-0-program"])
def test_a_completed_index_is_proven_by_its_exit_code_where_its_pod_is_gone(
    bare: client.KubernetesClient, said: str | None
) -> None:
    """Where the pod is there, its agent must have said how it has ended."""
    record = {"format": "runspec.run/v1", "run": RUN, "nodes": 1, "count": 1, "ends": True}
    body = json.dumps({**record, "shape": "single", "sweep": []})
    cluster(bare).add("configmaps", RUN, RUN, kind="ConfigMap", data={"record.json": body})
    status = {"completedIndexes": "0", "conditions": [{"type": "Complete", "status": "True"}]}
    cluster(bare).add("jobs", RUN, RUN, kind="Job", spec={"completions": 1}, status=status)
    add_pod(bare, "Failed", 1, 3, "0/1/0-3-program")
    if said is not None:
        add_pod(bare, "Succeeded", 2, 0, said)

    found = bare.state(RUN)

    assert found.state is (State.FAILED if said == "" else State.SUCCEEDED)


def add_pod(bare: client.KubernetesClient, phase: str, attempt: int, code: int, said: str) -> None:
    marks = {"annotations": {INDEX: "0", FAILURES: str(attempt - 1)}}
    ended = {"name": "job", "state": {"terminated": {"exitCode": code, "message": said}}}
    status = {"phase": phase, "containerStatuses": [ended]}
    cluster(bare).add("pods", f"{RUN}-0-{attempt}", RUN, metadata=marks, status=status)
