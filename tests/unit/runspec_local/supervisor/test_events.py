"""Events are whole lines, whatever the disk takes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runspec_local.supervisor import events
from runspec_local.supervisor.events import Events


class FullDisk:
    """Takes *room* bytes, then none."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def write(self, fd: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = self._write(fd, data[: self.room])
        self.room -= done
        return done


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    disk = FullDisk(10)
    monkeypatch.setattr("os.write", disk.write)
    return disk


def test_a_full_disk_does_not_stop_the_job_and_loses_no_event(
    disk: FullDisk, tmp_path: Path
) -> None:
    """Half a line is none, and what follows does not stick to it."""
    found = Events(tmp_path / "e")

    found.add("node", rank=0)
    found.add("node", rank=1)
    assert events.read(tmp_path / "e") == []
    disk.room = 1000
    found.add("end", durable=True)

    expected = [{"event": "node", "rank": 0}, {"event": "node", "rank": 1}, {"event": "end"}]
    assert events.read(tmp_path / "e") == expected


def test_the_last_event_is_tried_again(disk: FullDisk, tmp_path: Path) -> None:
    found = Events(tmp_path / "e")
    with pytest.raises(OSError, match="No space"):
        found.add("end", durable=True)
    disk.room = 1000

    found.flush()

    assert events.read(tmp_path / "e") == [{"event": "end"}]


def test_a_line_that_is_no_event_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(b'{"event": "no{"event": 1}\n\n7\n{"event": "end"}\n{"eve')

    assert events.read(tmp_path / "e") == [{"event": "end"}]
