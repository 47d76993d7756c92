"""The lengths of logs are noted each second, and give the times of lines."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runspec_jobs.errors import Unavailable
from runspec_local.status import FileStream
from runspec_local.supervisor.events import LogTimes


def index(log: Path) -> list[int]:
    return [int(line.split()[0]) for line in log.with_suffix(".times").read_text().splitlines()]


def test_a_length_is_noted_once_in_a_second_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    log, times = tmp_path / "0-0.log", LogTimes()
    times.watch(log)
    times.note()  # there is no log yet

    for text in ("a\n", "b\n", "", ""):
        now_s += 0.6
        log.write_text((log.read_text() if log.exists() else "") + text)
        times.note()
    assert index(log) == [4]
    log.write_text("a\nb\nc\n")
    times.end(0)

    assert index(log) == [4, 6]
    assert times.next_s == []
    assert os.stat(log.with_suffix(".times")).st_mode & 0o777 == 0o600


def test_other_tasks_are_watched_on_and_an_attempt_goes_on_where_the_last_one_ended(
    tmp_path: Path,
) -> None:
    one, ten, times = tmp_path / "1-0.log", tmp_path / "10-0.log", LogTimes()
    for log in (one, ten):
        log.write_text("a\n")
        times.watch(log)
    times.end(1)
    times.watch(one)
    times.end(1)
    one.write_text("a\nb\n")
    times.watch(one)
    times.end(1)

    assert index(one) == [2, 4]
    assert index(ten) == []
    assert times.next_s


def test_a_chunk_has_the_times_of_its_bytes(tmp_path: Path) -> None:
    log = tmp_path / "0-0.log"
    log.write_bytes(b"aa\nbb\ncc\n")
    log.with_suffix(".times").write_text("3 10.0\n6 11.5\n")
    os.utime(log, (20, 20))
    stream = FileStream(log, 0, 0)

    assert stream.timed(None).times == [(3, 10.0), (6, 11.5), (9, 20.0)]
    assert stream.timed("4").times == [(2, 11.5), (5, 20.0)]
    assert stream.timed("9").times == []


def test_a_log_of_an_earlier_version_has_no_times(tmp_path: Path) -> None:
    log = tmp_path / "0-0.log"
    log.write_bytes(b"aa\n")
    os.utime(log, (20, 20))

    with pytest.raises(Unavailable, match="this log has no times"):
        FileStream(log, 0, 0).timed(None)
