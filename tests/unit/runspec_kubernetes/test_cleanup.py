"""What runspec made, and no record mentions, is found by its labels and in the store."""

from __future__ import annotations

import json

import pytest

from runspec_jobs.provider import Orphan
from runspec_kubernetes.errors import Refused
from tests.unit.runspec_kubernetes.fake_cluster import RUN, Fakes
from tests.unit.runspec_kubernetes.plans import STORE, make_spec, steps_of

OTHER = "other-abc123"
JOBS, CORE = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default"
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}


def find(fakes: Fakes) -> list[Orphan]:
    return list(fakes.client.find_orphans([RUN], ["runspec-agent-new", "blobs/known"]))


def add_other(fakes: Fakes) -> None:
    fakes.add_job()
    cluster = fakes.cluster
    cluster.add("jobs", OTHER, OTHER, kind="Job", spec={}, status=FAILED)
    cluster.add("secrets", OTHER, OTHER, kind="Secret")
    cluster.add("secrets", "of-somebody", None, metadata={"labels": {}})
    cluster.add("configmaps", "runspec-agent-new", None, kind="ConfigMap")
    cluster.add("configmaps", "runspec-agent-old", None, kind="ConfigMap")
    fakes.store |= {f"runs/{OTHER}/record.json": b"", "blobs/old": b"1", "blobs/known": b"2"}


def test_find_orphans_names_what_no_record_mentions() -> None:
    fakes = Fakes()
    add_other(fakes)

    run, agent, blob = find(fakes)

    assert (run.what, run.run, run.alive) == (f"run {OTHER}", OTHER, False)
    assert [request.params.get("path") for request in run.remove] == [
        f"{JOBS}/{OTHER}",
        f"{CORE}/secrets/{OTHER}",
        None,
    ]
    assert run.remove[-1].params == {"prefix": f"runs/{OTHER}/"}
    assert (agent.what, agent.alive) == ("ConfigMap runspec-agent-old", False)
    assert blob.what == "upload blobs/old (1 bytes)"


def test_a_job_that_has_not_ended_needs_its_agent() -> None:
    fakes = Fakes()
    add_other(fakes)
    fakes.cluster.objects[f"{JOBS}/{OTHER}"]["status"] = {}

    run, agent, blob = find(fakes)

    assert run.what == f"run {OTHER}, whose Job is alive"
    assert run.alive and agent.alive and blob.alive


def test_who_may_not_list_secrets_finds_the_rest() -> None:
    fakes = Fakes()
    add_other(fakes)
    fakes.cluster.refuses["GET .*/secrets"] = Refused("forbidden", code=403)

    assert len(find(fakes)[0].remove) == 2


def test_orphans_are_deleted_by_their_requests() -> None:
    fakes = Fakes()
    add_other(fakes)

    for orphan in find(fakes):
        for request in orphan.remove:
            fakes.client.call(request)

    assert find(fakes) == []
    deletions = [body for method, _, body in fakes.cluster.sent if method == "DELETE"]
    assert [body["preconditions"]["uid"] for body in deletions] == [
        f"uid-{OTHER}",
        f"uid-{OTHER}",
        "uid-runspec-agent-old",
    ]
    assert f"runs/{RUN}/record.json" in fakes.store


@pytest.mark.parametrize(
    ("cluster", "removes"), [("/default", True), ("/other", False), ("kind-a/default", False)]
)
def test_runs_of_other_namespaces_in_one_store_are_left_alone(cluster: str, removes: bool) -> None:
    fakes = Fakes()
    fakes.store |= {
        f"runs/{OTHER}/record.json": json.dumps({"cluster": cluster}).encode(),
        "blobs/old": b"1",
    }

    *runs, blob = find(fakes)

    assert [run.run for run in runs] == [OTHER] * removes
    assert (blob.what, blob.alive) == ("upload blobs/old (1 bytes)", not removes)


def test_the_record_in_a_store_names_the_cluster() -> None:
    profile = {**STORE, "context": "kind-a", "namespace": "ml"}

    record = json.loads(steps_of(make_spec(), profile)["record"].do.params["body"])

    assert record["cluster"] == "kind-a/ml"


def test_files_of_a_run_whose_job_is_here_belong_to_this_namespace() -> None:
    """Two machines may give a context of one cluster different names."""
    fakes = Fakes()
    fakes.cluster.add("jobs", OTHER, OTHER, kind="Job", spec={}, status=FAILED)
    fakes.store[f"runs/{OTHER}/record.json"] = json.dumps({"cluster": "kind-a/default"}).encode()

    (run,) = find(fakes)

    assert run.remove[-1].params == {"prefix": f"runs/{OTHER}/"}
