"""What jobs noted of their failures, beside what AWS Batch says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_aws.jobs import Jobs
from runspec_aws.tries import Try, over

FAILED = {"statusReason": "Essential container in task exited", "container": {"exitCode": 75}}


class Store:
    """A bucket with the notes of one run; it counts how often it is listed."""

    prefix = "p"

    def __init__(self, *notes: str) -> None:
        self.notes = notes
        self.listed = 0

    def listing(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        self.listed += 1
        return iter([{"Key": f"{prefix}{note}"} for note in self.notes])


def jobs(store: Any) -> Jobs:
    session: Any = SimpleNamespace()
    return Jobs(session, store)


def test_the_store_is_asked_once_for_the_codes_of_all_nodes() -> None:
    """Most have noted nothing: nodes that are tried together end for another's failure."""
    store = Store("0-7/1-6")

    codes = jobs(store)._noted("r")
    found = [
        over({"attempts": [FAILED, FAILED]}, 0, rank, codes)[0].exit_code for rank in range(50)
    ]

    assert found == [6 if rank == 7 else 75 for rank in range(50)]
    assert store.listed == 1


def test_a_code_that_is_known_is_not_asked_for_again_and_a_new_try_is() -> None:
    store = Store("0-0/1-6")
    known = jobs(store)

    assert [known._noted("r")(Try(0, 0, 1)) for _ in range(3)] == [6, 6, 6]
    assert store.listed == 1
    store.notes = ("0-0/1-6", "0-0/2-7")
    assert known._noted("r")(Try(0, 0, 2)) == 7


def test_a_wish_is_in_the_store_before_a_child_is_told_to_end_and_each_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    own = jobs(SimpleNamespace(put_new=lambda content, *parts: done.append("/".join(parts))))
    own._records["r"] = {"shape": "array", "nodes": 2, "sweep": [["n", ["a", "b", "c"]]]}
    own.remember("r", "j")
    monkeypatch.setattr(own, "job", lambda run: {"jobId": "j", "status": "RUNNING"})
    monkeypatch.setattr(
        own, "describe", lambda ids: {i: {"status": "RUNNING"} for i in sorted(ids)}
    )
    monkeypatch.setattr(own, "_terminate", lambda job, reason: done.append(job))

    own.stop("r", {1})
    own.stop("r", {1})

    assert done == ["runs/r/stop/1", "j:2", "j:3"]
