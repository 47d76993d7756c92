"""Tasks of a sweep end once so many of them have failed, whoever of them looks."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.retry import stop_request
from runspec_agent.retry.failure_count import AGAIN, Failures
from runspec_agent.store.base import Bucket

pytestmark = pytest.mark.process

AT = "runs/r/"
RECORD: dict[str, Any] = {"shape": "single", "attempts": 2, "max_failed": 2}


def task(number: int, attempt: int = 1, rank: int = 0) -> TaskIdentity:
    return TaskIdentity("j", number, rank, attempt)


def halted(bucket: Bucket, number: int) -> bool:
    return stop_request.is_halted(bucket, AT, number, RECORD)


def test_a_task_has_failed_when_no_attempt_follows(bucket: Bucket) -> None:
    failures = Failures(bucket, AT, RECORD)

    assert [failures.judge(task(n), 3) for n in (0, 1)] == [AGAIN, AGAIN]
    assert not halted(bucket, 2)
    assert [failures.judge(task(n, 2), 3) for n in (0, 1)] == [3, 3]
    assert [halted(bucket, n) for n in (0, 1, 2)] == [False, False, True]


def test_a_rule_of_the_spec_may_end_it_before(bucket: Bucket) -> None:
    rules = [{"codes": [[3, 3]], "action": "stop"}]
    failures = Failures(bucket, AT, {**RECORD, "retry_on": rules})

    for number in (0, 1):
        failures.judge(task(number), 3)

    assert halted(bucket, 2)


def test_a_rule_for_memory_ends_a_task_that_ran_out_of_it(bucket: Bucket) -> None:
    rules = [{"reason": "oom", "action": "stop"}]
    failures = Failures(bucket, AT, {**RECORD, "retry_on": rules})
    failures.note_oom(task(0))

    assert [failures.judge(task(n), 137) for n in (0, 1)] == [137, AGAIN]


def test_a_later_success_takes_the_failure_back(bucket: Bucket) -> None:
    for number in (0, 1):
        stop_request.mark_failed(bucket, AT, task(number), RECORD)

    stop_request.unmark(bucket, AT, task(1, attempt=2), RECORD)

    assert not halted(bucket, 2)


def test_the_first_node_counts_failures_for_its_gang(bucket: Bucket) -> None:
    gang = {**RECORD, "shape": "nodes"}

    for number in (0, 1):
        stop_request.mark_failed(bucket, AT, task(number, rank=1), gang)

    assert not halted(bucket, 2)


def test_failures_are_not_counted_without_max_failed(bucket: Bucket) -> None:
    record = {"shape": "single", "attempts": 1}

    Failures(bucket, AT, record).judge(task(0), 3)

    assert list(bucket.listing(f"{AT}failed/")) == []
    assert not stop_request.is_halted(bucket, AT, 1, record)
