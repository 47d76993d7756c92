"""How Batch AI runs a spec is decided once, from the spec and the settings."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_batchai.decision import decide
from tests.support.azure.batch_ai_specs import facts, spec

TWICE = {"cluster": {"nodes": 2}, "retry": {"attempts": 3}, "timeout": "1h"}


@pytest.mark.parametrize(
    ("fields", "settings", "toolkit", "requested", "attempts"),
    [
        pytest.param({}, {}, "custom", "custom", 1, id="one node"),
        pytest.param(TWICE, {}, "custom-mpi", "custom", 3, id="retried mpirun"),
        pytest.param({**TWICE, "launch": "torchrun"}, {}, "pytorch", "pytorch", 1, id="torchrun"),
        pytest.param(
            TWICE, {"contract": False}, "custom-mpi", "custom-mpi", 1, id="without the contract"
        ),
        pytest.param(TWICE, {"toolkit": "caffe2"}, "caffe2", "caffe2", 1, id="toolkit of the user"),
    ],
)
def test_the_toolkit_decides_attempts_and_the_time_limit(
    fields: dict[str, Any], settings: dict[str, Any], toolkit: str, requested: str, attempts: int
) -> None:
    wanted = spec(**fields)
    made = decide(wanted, facts(wanted, **settings).options)

    assert (made.toolkit, made.requested_toolkit, made.attempts) == (toolkit, requested, attempts)
    assert made.limit_s == (3600 * attempts if fields else None)


@pytest.mark.parametrize(
    ("count", "processes", "slots"), [("3", 3, 2), ("three", 8, 4)], ids=["set", "not a number"]
)
def test_processes_are_counted_by_the_toolkit_or_else_by_the_spec(
    count: str, processes: int, slots: int
) -> None:
    """A number that cannot be read is a problem of `check`."""
    wanted = spec(cluster={"nodes": 2}, launch="mpi", processes_per_node=4)
    made = decide(wanted, facts(wanted, toolkit_settings={"processCount": count}).options)

    assert (made.processes, made.slots) == (processes, slots)
