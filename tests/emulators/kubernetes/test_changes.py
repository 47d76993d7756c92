"""Changes of objects: patches of three kinds, trials, generated names, and deletion of many."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from runspec_emulators.kubernetes.api import discovery
from tests.emulators.kubernetes.bench import JOBS_PATH, MAPS_PATH, PODS_PATH, Bench, job, pod

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
M = f"{MAPS_PATH}/m"


OTHER = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
def kept(bench: Bench) -> Bench:
    meta = {"name": "m", "labels": {"a": "1", "b": "2"}}
    bench.make(MAPS_PATH, {"metadata": meta, "data": {"x": "1", "y": "2"}})
    return bench


def test_a_merge_patch_sets_and_removes(kept: Bench) -> None:
    status, value = kept.call("PATCH", M, {"data": {"x": None, "z": "3"}}, MERGE)

    assert (status, value["data"]) == (200, {"y": "2", "z": "3"})
    assert value["metadata"]["labels"] == {"a": "1", "b": "2"}


def test_a_json_patch_tests_first(kept: Bench) -> None:
    steps = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "9"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]

    assert kept.call("PATCH", M, steps, JSON_PATCH)[1]["data"]["x"] == "9"
    status, value = kept.call("PATCH", M, steps, JSON_PATCH)

    assert (status, value["reason"]) == (422, "Invalid")


def test_a_strategic_patch_merges_lists_by_their_keys(bench: Bench) -> None:
    bench.make(PODS_PATH, pod())
    more = {"spec": {"containers": [{"name": "job", "image": "y"}]}}

    status, value = bench.call("PATCH", f"{PODS_PATH}/p", more, STRATEGIC)

    (container,) = value["spec"]["containers"]
    assert (status, container["image"], container["name"]) == (200, "y", "job")


def test_a_patch_of_an_object_that_was_made_again_is_a_conflict(kept: Bench) -> None:
    stale = {"metadata": {"uid": OTHER, "resourceVersion": "1"}}

    assert kept.call("PATCH", M, stale, MERGE)[0] == 409
    assert kept.call("PATCH", M, {"metadata": {"uid": OTHER}}, MERGE)[0] == 422


def test_a_patch_of_a_stale_version_is_a_conflict(kept: Bench) -> None:
    version = kept.get(M)["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}
    assert kept.call("PATCH", M, patch, MERGE)[0] == 200

    status, value = kept.call("PATCH", M, {**patch, "data": {"x": "3"}}, MERGE)

    assert (status, value["reason"]) == (409, "Conflict")


def test_a_patch_that_changes_nothing_makes_no_version(kept: Bench) -> None:
    before = kept.get(M)["metadata"]["resourceVersion"]

    value = kept.call("PATCH", M, {"data": {"x": "1"}}, MERGE)[1]

    assert value["metadata"]["resourceVersion"] == before


def test_an_unknown_field_in_a_patch_is_refused_where_that_is_asked_for(bench: Bench) -> None:
    bench.make(JOBS_PATH, job())
    patch = {"spec": {"colour": 1}}

    status, value = bench.call("PATCH", f"{JOBS_PATH}/j?fieldValidation=Strict", patch, MERGE)

    assert status in (400, 422)
    assert 'unknown field "spec.colour"' in value["message"]
    assert bench.call("PATCH", f"{JOBS_PATH}/j", patch, MERGE)[0] == 200


def test_a_trial_keeps_nothing(bench: Bench) -> None:
    status, value = bench.call("POST", f"{JOBS_PATH}?dryRun=All", job())

    assert (status, value["spec"]["backoffLimit"]) == (201, 6)
    assert bench.call("GET", f"{JOBS_PATH}/j")[0] == 404


def test_names_are_generated(bench: Bench) -> None:
    body = {"metadata": {"generateName": "m-"}}

    names = {bench.make(MAPS_PATH, body)["metadata"]["name"] for _ in range(5)}

    assert len(names) == 5
    assert all(name.startswith("m-") and len(name) == 7 for name in names)


def test_what_a_selector_chooses_is_deleted(bench: Bench) -> None:
    for name, label in (("a", "1"), ("b", "2"), ("c", "1")):
        bench.make(MAPS_PATH, {"metadata": {"name": name, "labels": {"of": label}}})

    assert bench.call("DELETE", f"{MAPS_PATH}?labelSelector=of=1")[0] == 200

    assert [v["metadata"]["name"] for v in bench.get(MAPS_PATH)["items"]] == ["b"]


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("of=1", "ac"),
        ("of!=1", "bd"),
        ("of in (1,2)", "abc"),
        ("of notin (1),of", "b"),
        ("!of", "d"),
    ],
)
def test_labels_choose(bench: Bench, selector: str, chosen: str) -> None:
    for name, labels in (("a", {"of": "1"}), ("b", {"of": "2"}), ("c", {"of": "1"}), ("d", {})):
        bench.make(MAPS_PATH, {"metadata": {"name": name, "labels": labels}})

    items = bench.get(f"{MAPS_PATH}?labelSelector={quote(selector)}")["items"]

    assert "".join(v["metadata"]["name"] for v in items) == chosen


def test_an_immutable_secret_stays(bench: Bench) -> None:
    path = "/api/v1/namespaces/default/secrets"
    bench.make(path, {"metadata": {"name": "s"}, "immutable": True, "stringData": {"a": "b"}})

    status, value = bench.call("PATCH", f"{path}/s", {"stringData": {"a": "c"}}, MERGE)

    (cause,) = value["details"]["causes"]
    why = "Forbidden: field is immutable when `immutable` is set"
    assert (status, cause["field"], cause["message"]) == (422, "data", why)


def test_an_object_is_found_among_its_like(bench: Bench) -> None:
    def kinds(path: str) -> Any:
        answer = discovery.answer(bench.cluster.settings, path)
        assert isinstance(answer, dict)
        return answer

    assert kinds("/version")["gitVersion"] == "v1.36.2"
    assert [g["name"] for g in kinds("/apis")["groups"]] == [
        "authorization.k8s.io",
        "batch",
        "scheduling.k8s.io",
    ]
    names = [r["name"] for r in kinds("/apis/batch/v1")["resources"]]
    assert names == ["jobs", "jobs/status"]
