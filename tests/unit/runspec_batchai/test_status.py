"""The attempts of a job have the times of the service, and those that its shell writes in between."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_batchai.attempts import End
from runspec_batchai.status import TERMINATED, TIMED_OUT, node
from runspec_jobs.machines.spent import Outcome
from runspec_jobs.provider import State, Status
from runspec_jobs.state.attempt_history import merge_spans

TWO = {1: End(3, 110.0), 2: End(0, 150.0)}


def job(state: str, code: int | None = None, nodes: int = 1, error: str = "") -> Any:
    def at(seconds: int, told: bool) -> datetime | None:
        return datetime.fromtimestamp(seconds, UTC) if told else None

    over = state in ("succeeded", "failed")
    errors = [SimpleNamespace(code=error, message=error, details=None)] if error else []
    info = SimpleNamespace(
        start_time=at(100, over or state == "running"),
        end_time=at(151, over),
        exit_code=code,
        errors=errors,
    )
    return SimpleNamespace(execution_state=state, execution_info=info, node_count=nodes)


@pytest.mark.parametrize(
    ("of", "ends", "times", "attempt"),
    [
        (job("succeeded", 0), {}, [(1, 0, 100.0, 151.0)], 1),
        (job("succeeded", 0), TWO, [(1, 3, 100.0, 110.0), (2, 0, 110.0, 151.0)], 2),
        (job("failed", 3), {1: End(3, None)}, [(1, 3, 100.0, 151.0)], 1),
        (
            job("failed", None, error=TERMINATED),
            {1: End(3, 110.0)},
            [(1, 3, 100.0, 110.0), (2, None, 110.0, 151.0)],
            2,
        ),
        (job("failed", 137), {1: End(3, 110.0)}, [(1, 3, 100.0, 110.0), (2, 137, 110.0, 151.0)], 2),
        (job("running"), {1: End(3, 110.0)}, [(1, 3, 100.0, 110.0)], 2),
        (job("queued"), {}, [], 1),
    ],
)
def test_each_attempt_has_its_times(
    of: Any, ends: Mapping[int, End], times: list[Any], attempt: int
) -> None:
    found = node(0, of, ends)

    assert [(a.number, a.exit_code, a.began_s, a.ended_s) for a in found.attempts] == times
    assert found.attempt == attempt


def test_a_success_needs_no_reason_and_a_timeout_is_named() -> None:
    good, late = node(0, job("succeeded", 0), TWO), node(0, job("failed", 143, error=TIMED_OUT))

    assert [a.reason for a in good.attempts] == ["exited with code 3", ""]
    assert late.reason == f"timeout: {TIMED_OUT}"


@pytest.mark.parametrize(("ends", "began_s"), [({}, 100.0), ({1: End(3, 110.0)}, 110.0)])
def test_the_attempt_that_runs_began_with_the_job_or_after_the_one_before(
    ends: Mapping[int, End], began_s: float
) -> None:
    assert node(0, job("running"), ends).began_s == began_s


def test_all_nodes_of_a_job_are_charged_though_the_service_reports_one_status() -> None:
    found = node(0, job("succeeded", 0, nodes=3))

    spans = merge_spans([], Status(State.SUCCEEDED, "", 0, (found,)), 200.0)

    assert [one[:6] for one in spans] == [
        (0, rank, 1, Outcome.SUCCEEDED, 100.0, 151.0) for rank in range(3)
    ]
