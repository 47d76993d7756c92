"""Tries are counted where the service does not: each number is one try's, whoever else asks."""

from __future__ import annotations

import threading

import pytest

from runspec_agent.retry import attempts
from runspec_agent.store.base import Bucket
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process

AT = "runs/r/tries/0-0/"


def test_numbers_go_on_from_1(bucket: Bucket) -> None:
    assert [attempts.number(bucket, AT) for _ in range(12)] == list(range(1, 13))


def test_tasks_and_nodes_have_their_own(bucket: Bucket) -> None:
    attempts.number(bucket, AT)

    assert attempts.number(bucket, "runs/r/tries/0-1/") == 1
    assert attempts.number(bucket, "runs/r/tries/1-0/") == 1


def test_no_two_attempts_get_the_same_number(bucket: Bucket) -> None:
    """A machine that was given up may still run."""
    found: list[int] = []
    gate = threading.Barrier(6)

    def run() -> None:
        gate.wait()
        found.append(attempts.number(bucket, AT))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found) == [1, 2, 3, 4, 5, 6]


def test_a_lost_reply_takes_one_number(bucket: Bucket, way: Way) -> None:
    way.breaks("reset after", "PUT", "tries")

    assert [attempts.number(bucket, AT) for _ in range(2)] == [1, 2]
