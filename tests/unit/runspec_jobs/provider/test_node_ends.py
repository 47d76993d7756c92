"""The end records of a run, as a client reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import end_causes
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.retry import end_record
from runspec_agent.store.folder import FolderBucket
from runspec_jobs.provider import node_ends
from runspec_jobs.provider.node_ends import NodeEnd, NodeEnds


class Store:
    """What a run has below ends/; it counts its lists and reads."""

    def __init__(self, **content: str) -> None:
        self.content, self.lists, self.reads = content, 0, 0

    def ends(self, **record: Any) -> NodeEnds:
        def names() -> list[str]:
            self.lists += 1
            return list(self.content)

        def read(names: Sequence[str]) -> list[bytes | None]:
            self.reads += len(names)
            found = (self.content.get(name) for name in names)
            return [None if one is None else one.encode() for one in found]

        return NodeEnds(record, names, read)


@pytest.mark.parametrize("code,cause", [(0, "program"), (143, "stopped"), (124, "timeout")])
@pytest.mark.parametrize("setup_s", [None, 0, 100])
def test_the_client_reads_what_the_agent_has_written(
    code: int, cause: str, setup_s: int | None, tmp_path: Path
) -> None:
    end = end_record.End(code, cause, None, setup_s)
    bucket, place = (
        FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path}"}),
        TaskIdentity("j", 4, 1, 2),
    )
    end_record.write(bucket, "", place, end, "node")

    names = [entry.key.removeprefix("ends/") for entry in bucket.listing("ends/")]
    assert node_ends.read_names(names) == {(4, 1, 2): NodeEnd(code, cause, setup_s)}
    assert end_record.find(bucket, "", place) == end
    # Versions up to 0.3.0 know this name alone.
    assert f"4/2/1-{code}-{cause}" in names


def test_ten_thousand_ends_take_one_list_and_no_read() -> None:
    store = Store(**{f"{n}/1/0-0-program": "" for n in range(10_000)})
    ends = store.ends(ends=True)

    for _ in range(3):
        ends.look([(n, 0, 1) for n in range(10_000)])

    assert all(ends.newest(n, 0) == NodeEnd(0, "program") for n in range(10_000))
    assert (store.lists, store.reads) == (1, 0)


def test_an_end_that_is_new_is_listed_and_one_that_is_missing_not_again() -> None:
    store = Store()
    ends = store.ends(ends=True)
    ends.look([(0, 0, 1)])
    ends.look([(0, 0, 1)])
    store.content["0/2/0-3-program"] = ""

    ends.look([(0, 0, 1), (0, 0, 2)])

    assert (ends.of((0, 0, 1)), ends.of((0, 0, 2))) == (None, NodeEnd(3, "program"))
    assert store.lists == 2


def test_a_run_of_an_older_version_is_not_asked_for_ends() -> None:
    store = Store(**{"0/1/0-0-program": ""})
    ends = store.ends()

    ends.look([(0, 0, 1)])

    assert (ends.written, store.lists) == (False, 0)


@pytest.mark.parametrize(
    "content",
    ["", "x", "1 0", "1 -1 program", "1 0 program x", f"1 {'9' * 5000} program"],
    ids=lambda content: content[:9],
)
def test_the_record_of_a_job_with_signed_urls_is_read_and_a_damaged_one_proves_nothing(
    content: str,
) -> None:
    store = Store(**{"0/signed": "2 75 program\n", "1/signed": content})
    ends = store.ends(ends="signed")

    ends.look([(0, 0, 2), (1, 0, 1)])

    assert (ends.newest(0, 0), ends.newest(1, 0)) == (NodeEnd(75, "program"), None)
    assert (store.lists, store.reads) == (0, 2)


@pytest.mark.parametrize("told", ["143-peer", "143-stopped"])
def test_the_timeout_of_a_node_is_that_of_the_nodes_that_it_ended(told: str) -> None:
    """One node reaches it first. The service or the agent then ends the others, in this attempt alone."""
    other_attempt, failed = f"0/2/1-{told}", "0/1/2-3-program"
    store = Store(
        **dict.fromkeys(["0/1/0-124-timeout", f"0/1/1-{told}", failed, other_attempt], "")
    )
    ends = store.ends(ends=True)

    ends.look([(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 1, 2)])

    timeout = NodeEnd(124, end_causes.TIMEOUT)
    assert [ends.of((0, rank, 1)) for rank in range(3)] == [timeout, timeout, NodeEnd(3, "program")]
    assert ends.of((0, 1, 2)) == NodeEnd(143, told.partition("-")[2])


def test_a_timeout_of_mpi_says_what_may_have_been_waited_for() -> None:
    """MPI ends no other rank after an exception of Python on one of them."""
    end = NodeEnd(124, end_causes.TIMEOUT)

    assert end.reason({"timeout_s": 60, "launch": "none"}) == "timeout: not done after 60 s"
    assert "python -m mpi4py" in end.reason({"timeout_s": 60, "launch": "mpi"})
