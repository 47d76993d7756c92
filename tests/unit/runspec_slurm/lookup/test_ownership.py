"""A job is a run's by its id with its name, or with the place and the time of its submission."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_slurm.lookup.ownership import JobOwnership
from runspec_slurm.queue import Queue, Row
from runspec_slurm.session.transport import Here
from runspec_slurm.store.workspace import WorkspaceStore

RUN, WRITTEN_S, CLAIMED_S = "job-a1", 1_000_000.0, 1_000_100.0


def row(folder: Path, **said: Any) -> Row:
    given = Row("7", (0,), "RUNNING", "None", 0, 0, None, None, "n1", str(folder), "site-7")
    return given._replace(submitted_s=CLAIMED_S, **said)


@pytest.fixture
def whose(tmp_path: Path) -> JobOwnership:
    store = WorkspaceStore(Here(), str(tmp_path))
    for name, content, at in (("record.json", b"{}", WRITTEN_S), ("claim", b"7", CLAIMED_S)):
        store.put(f"runs/{RUN}/{name}", content)
        os.utime(tmp_path / "runs" / RUN / name, (at, at))
    return JobOwnership(store, Queue(store))


@pytest.mark.process
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, True),
        ({"name": RUN, "folder": "/elsewhere", "submitted_s": None}, True),
        ({"submitted_s": WRITTEN_S - 3600}, False),
        ({"submitted_s": CLAIMED_S + 3600}, False),
        ({"submitted_s": CLAIMED_S + 3600, "restarts": 1}, True),
        ({"submitted_s": None}, False),
        ({"folder": "/elsewhere"}, False),
    ],
    ids=["renamed", "its name", "before", "after", "queued again", "no time", "elsewhere"],
)
def test_a_job_is_known_by_when_and_where_it_was_submitted(
    whose: JobOwnership, tmp_path: Path, said: Mapping[str, Any], expected: bool
) -> None:
    assert whose.is_of(RUN, row(tmp_path)._replace(**said)) is expected


@pytest.mark.process
def test_a_job_of_a_run_that_is_destroyed_is_nobodys(whose: JobOwnership, tmp_path: Path) -> None:
    whose.store.remove_tree("runs", RUN)

    assert not whose.is_of(RUN, row(tmp_path))
