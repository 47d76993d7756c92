"""How Slurm runs a spec is decided once, from the spec and the facts."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from runspec_slurm.decision import decide
from tests.support.slurm.specs import FOUND, facts, spec

ELASTIC = {"cluster": {"nodes": {"min": 1, "max": 4}}, "launch": "torchrun"}
GANG = {"cluster": {"nodes": 3}}
SMALL = {**FOUND, "max_array": 10}


@pytest.mark.parametrize(
    ("fields", "cluster", "tasks", "nodes", "arrays", "lanes"),
    [
        pytest.param({}, FOUND, 1, 1, 1, 0, id="single"),
        pytest.param({"sweep": {"n": "1..9"}}, FOUND, 9, 1, 1, 0, id="array"),
        pytest.param(GANG, FOUND, 1, 3, 1, 0, id="gang"),
        pytest.param({**GANG, "sweep": {"n": "1..9"}}, FOUND, 9, 3, 1, 0, id="array of gangs"),
        pytest.param(ELASTIC, FOUND, 4, 1, 1, 0, id="elastic"),
        pytest.param({"sweep": {"n": "1..25"}}, SMALL, 25, 1, 3, 0, id="split"),
        pytest.param(
            {"sweep": {"n": "1..25"}, "max_parallel": 12}, SMALL, 25, 1, 3, 2, id="split lanes"
        ),
        pytest.param(
            {**ELASTIC, "sweep": {"n": "1..9"}}, SMALL, 36, 1, 1, 0, id="elastic is never split"
        ),
    ],
)
def test_the_kind_of_job_decides_tasks_nodes_and_arrays(
    fields: dict[str, Any],
    cluster: dict[str, Any],
    tasks: int,
    nodes: int,
    arrays: int,
    lanes: int,
) -> None:
    asked = spec(**fields)

    made = decide(asked, facts(asked, found=cluster))

    assert (made.arrays.tasks, made.nodes) == (tasks, nodes)
    assert (made.arrays.count, made.arrays.lanes) == (arrays, lanes)
    assert sum(made.arrays.size(array) for array in range(arrays)) == tasks


@pytest.mark.parametrize(
    ("container", "preferred", "engines", "engine"),
    [
        ({}, "podman", ["podman"], "none"),
        ({"image": "a:1"}, "auto", ["podman", "pyxis"], "pyxis"),
        ({"image": "a:1"}, "auto", [], "none"),
        ({"image": "a:1"}, "apptainer", ["podman"], "apptainer"),
        ({"image": "localhost/a:1", "requirements": ["six"]}, "auto", ["podman"], "none"),
        ({"image": "localhost/a:1"}, "auto", ["podman"], "podman"),
        ({"image": "a:1", "requirements": ["six"]}, "auto", ["podman"], "podman"),
    ],
)
def test_the_image_the_profile_and_the_cluster_decide_the_engine(
    container: dict[str, Any], preferred: str, engines: list[str], engine: str
) -> None:
    asked = spec(container=container)

    made = decide(asked, facts(asked, {"container": preferred}, {**FOUND, "containers": engines}))

    assert made.engine == engine


def test_an_unknown_cluster_is_taken_to_have_podman() -> None:
    asked = spec(container={"image": "a:1"})

    assert decide(asked, facts(asked, found=None)).engine == "podman"


def test_a_decision_is_made_of_a_spec_that_check_refuses() -> None:
    asked = spec(mounts=[{"name": "w", "source": "shared://none", "target": "/job/w"}])

    assert decide(asked, facts(asked)).shared == ()


def test_a_decision_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        decide(spec(), facts(spec())).nodes = 2  # type: ignore[misc]
