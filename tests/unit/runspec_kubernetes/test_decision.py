"""How Kubernetes runs a spec: on which nodes, within which limits, and in which volumes."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_kubernetes.options import SPOT
from tests.unit.runspec_kubernetes.plans import CODE, MODEL, STORE, WORDS, decision_of

GKE = {**STORE, "cloud": "gke"}
LABEL = SPOT["gke"].label


def test_spot_nodes_are_demanded_preferred_or_avoided() -> None:
    found = {
        capacity: decision_of(GKE, cluster={"capacity": capacity})
        for capacity in ("spot", "spot-then-on-demand", "on-demand")
    }

    assert found["spot"].selector == {LABEL: "true"}
    assert found["spot-then-on-demand"].preferred == {LABEL: "true"}
    assert found["on-demand"].avoided == {LABEL: "true"}
    assert [len(d.tolerations) for d in found.values()] == [1, 1, 0]


def test_a_job_on_demand_may_use_spot_nodes_that_its_profile_or_pool_names() -> None:
    named = {**GKE, "node_selector": {LABEL: "true"}}

    assert decision_of(named).avoided == {}
    assert decision_of(GKE, cluster={"capacity": "pool:night"}).avoided == {}


def test_without_a_cloud_nodes_are_not_told_apart() -> None:
    decision = decision_of(STORE)

    assert (decision.selector, decision.preferred, decision.avoided) == ({}, {}, {})


@pytest.mark.parametrize("kind,labels", [("A100-80GB", {"b": "2"}), ("A100-40GB", {"a": "1"})])
def test_a_type_with_its_memory_may_have_labels_of_its_own(
    kind: str, labels: dict[str, str]
) -> None:
    known = {**STORE, "gpu_types": {"A100": {"a": "1"}, "A100-80GB": {"b": "2"}}}

    found = decision_of(known, cluster={"gpus": 1, "gpu_type": kind})

    assert found.selector == labels


@pytest.mark.parametrize(
    "fields,most",
    [({"max_failed": 1}, 1), ({"max_failed": 2}, 2), ({"max_failed": 3}, None), ({}, None)],
)
def test_a_sweep_ends_early_only_if_tasks_are_left(
    fields: dict[str, Any], most: int | None
) -> None:
    assert decision_of(sweep={"n": "1..3"}, **fields).max_failed == most


def test_times_are_at_most_the_largest_number_of_the_api() -> None:
    found = decision_of(timeout="999999d", ttl="999999d")

    assert (found.limit_s, found.keep_s) == (2**31 - 1, 2**31 - 1)


def test_volumes_are_made_for_mounts_and_outputs_and_for_the_folder_of_a_file() -> None:
    more = {"name": "more", "source": "./more.txt", "target": "/job/in/more.txt"}

    found = decision_of(mounts=[WORDS, CODE, more], outputs=[MODEL])

    assert found.folders == ("/job",)


@pytest.mark.parametrize(
    "source,target,folder",
    [
        ("s3://sets/set/words", "/job/words", "/job"),  # it may be a file
        ("s3://sets/set/words", "/data/words", "/data"),
        ("s3://sets", "/words", "/words"),
    ],
)
def test_what_another_owner_has_may_be_a_file(source: str, target: str, folder: str) -> None:
    mount = {"name": "words", "source": source, "target": target, "anonymous": True}

    assert decision_of(mounts=[mount]).folders == (folder,)


def test_a_pod_with_the_user_of_its_image_needs_no_volumes() -> None:
    assert decision_of({**STORE, "security": "none"}, mounts=[CODE]).folders == ()


@pytest.mark.parametrize(
    "retry,repeats",
    [
        ({}, False),
        ({"attempts": 2}, True),
        ({"attempts": 2, "on": [{"reason": "oom", "action": "stop"}]}, False),
        ({"attempts": 2, "on": [{"action": "stop"}]}, False),
        ({"attempts": 2, "on": [{"exit_codes": [137], "action": "stop"}]}, False),
    ],
)
def test_a_container_that_is_killed_as_a_whole_is_repeated_unless_a_rule_stops(
    retry: dict[str, Any], repeats: bool
) -> None:
    """The kernel kills all of a container that needs more than its memory, and the agent with it."""
    assert decision_of(retry=retry).repeats_killed is repeats
