"""The length of a node's log is noted while it grows, in every attempt."""

from __future__ import annotations

import os
import time
from pathlib import Path

from runspec_agent.store import base
from runspec_agent.store.folder import FolderBucket
from runspec_agent.transfer.log_times import LogTimes, last_length, start
from tests.support.wait import until

ENV = {"RUNSPEC_RUN": "job-abc123", "RUNSPEC_TASK": "2", "RUNSPEC_RANK": "1"}


def lengths(index: Path) -> list[int]:
    return [int(line.split()[0]) for line in index.read_text().splitlines()]


def placed(folder: Path) -> Path:
    log = folder / "runs" / "job-abc123" / "logs" / "2-1.txt"
    log.parent.mkdir(parents=True)
    log.write_text("a\n")
    return log


def test_the_log_of_this_node_is_noted_within_a_second_and_at_the_end(tmp_path: Path) -> None:
    log = placed(tmp_path)
    index = log.with_suffix(".times")
    began_s = time.time()

    times = start(FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path}"}), ENV)
    assert times is not None
    until(index.exists)
    log.write_text("a\nb\n")
    times.finish()

    assert lengths(index) == [2, 4]
    assert os.stat(index).st_mode & 0o777 == 0o600
    at = [float(line.split()[1]) for line in index.read_text().splitlines()]
    assert began_s - 0.1 <= at[0] <= at[1] <= time.time() + 0.1


def test_an_attempt_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    log = placed(tmp_path)
    index = log.with_suffix(".times")
    LogTimes(str(log), str(index)).finish()

    second = LogTimes(str(log), str(index))
    second.note()
    assert lengths(index) == [2]
    log.write_text("a\nb\n")
    second.finish()

    assert lengths(index) == [2, 4]


def test_an_index_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    log = placed(tmp_path)
    index = log.with_suffix(".times")
    index.mkdir()

    LogTimes(str(log), str(index)).finish()
    LogTimes(str(tmp_path / "gone"), str(index)).finish()
    assert last_length(str(tmp_path / "none")) == 0


def test_a_store_without_a_log_has_no_index(tmp_path: Path) -> None:
    assert start(FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path}"}), ENV) is None
    assert start(base.Bucket(), ENV) is None
