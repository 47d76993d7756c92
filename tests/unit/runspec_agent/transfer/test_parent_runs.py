"""A job reads nothing of a run that has not succeeded, whatever the service says of its containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store.folder import FolderBucket
from runspec_agent.transfer.parent_runs import demand_success
from runspec_agent.transfer.workdir import Workdir

RUN = "prepare-abc234"
RECORD = {"ends": True, "shape": "single", "nodes": 1, "sweep": []}
SWEEP = {"shape": "array", "sweep": [["lr", ["1", "2"]]]}


def store(folder: Path, names: list[str], record: dict[str, Any]) -> FolderBucket:
    """Return a store with the record of a run, and the names of its end records."""
    bucket = FolderBucket({"RUNSPEC_STORE": f"file://{folder}"})
    bucket.put(f"runs/{RUN}/record.json", json.dumps({**RECORD, **record}).encode())
    for name in names:
        bucket.put(f"runs/{RUN}/ends/{name}", b"{}")
    return bucket


@pytest.mark.parametrize(
    ("ends", "record"),
    [
        (["0/1/0-0-program"], {}),
        (["0/1/0-143-reclaimed", "0/2/0-0-program"], {}),
        (["0/9/0-1-program", "0/10/0-0-program"], {}),  # attempts are numbers
        (["0/1/0-0-program", "1/1/0-0-program"], SWEEP),
        (["0/1/0-0-program", "0/1/1-143-peer"], {"shape": "nodes", "nodes": 2}),
        ([], {"ends": None}),  # an older version has started it
    ],
)
def test_a_run_that_has_succeeded_is_read(
    tmp_path: Path, ends: list[str], record: dict[str, Any]
) -> None:
    demand_success(store(tmp_path, ends, record), [{"run": RUN}], 0)


@pytest.mark.parametrize(
    ("ends", "record", "how"),
    [
        ([], {}, "task 0 recorded no end on node 0"),
        (["0/1/0-3-program"], {}, "task 0 ended with exit code 3 on node 0"),
        (["0/1/0-0-program", "0/2/0-137-killed"], {}, "task 0 ended with exit code 137"),
        (["0/1/0-0-program"], SWEEP, "task 1 recorded no end"),
        (["0/1/0-0-program"], {"shape": "array", "nodes": 2}, "task 0 recorded no end on node 1"),
    ],
)
def test_a_run_that_has_not_succeeded_is_refused_before_anything_is_read(
    tmp_path: Path, ends: list[str], record: dict[str, Any], how: str
) -> None:
    bucket = store(tmp_path / "store", ends, record)
    own = {
        "needs": [{"run": RUN}],
        "mounts": [{"name": "in", "kind": "tar", "key": "none", "target": "/i"}],
    }

    with pytest.raises(Failure, match=f"needs {RUN} to have succeeded, whose {how}") as caught:
        Workdir(bucket, own, {"RUNSPEC_BELOW": str(tmp_path)}, str(tmp_path)).mounted(0)

    assert caught.value.code == USAGE
    assert not (tmp_path / "i").exists()


def test_of_a_paired_run_the_task_of_the_own_number_counts(tmp_path: Path) -> None:
    bucket = store(tmp_path, ["0/1/0-0-program", "1/1/0-3-program"], SWEEP)
    needs = [{"run": RUN, "paired": True}]

    demand_success(bucket, needs, 0)
    with pytest.raises(Failure, match="task 1 ended with exit code 3"):
        demand_success(bucket, needs, 1)
