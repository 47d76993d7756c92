"""Sampling beside a job: its record reaches the store, it costs little, and it never fails or delays the job."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket
from runspec_agent.usage.background import LEAVE_S, Usage, key
from runspec_agent.usage.meter import EVERY_S, Meter, OwnUsage, memory_bytes
from runspec_agent.usage.process_table import ProcessTable
from runspec_jobs.machines.usage import read_usage
from tests.support.wait import until

pytestmark = pytest.mark.process

AT = "runs/r-000001/"
SAMPLES = 200


class BadStore(Bucket):
    """A store whose writes fail with *error*, or never end if there is none."""

    def __init__(self, error: Exception | None) -> None:
        self.error, self.tries = error, list[str]()

    def hasten(self, seconds: float) -> None:
        pass

    def put(self, key: str, content: bytes) -> None:
        self.tries.append(key)
        if self.error is not None:
            raise self.error
        threading.Event().wait()


def usage(bucket: Bucket, folder: Path) -> Usage:
    found = Usage(bucket, key(AT, 0, 1, 0), "node-1", {"PATH": "/nowhere"}, str(folder))
    found.start()
    return found


def test_the_record_of_a_node_reaches_the_store(bucket: Bucket, tmp_path: Path) -> None:
    sampled = usage(bucket, tmp_path)
    until(lambda: bucket.get(key(AT, 0, 1, 0)))
    time.sleep(1.2)  # the time of one more sample

    sampled.finish()

    names = [found.key[len(f"{AT}usage/") :] for found in bucket.listing(f"{AT}usage/")]
    read = [bucket.get(f"{AT}usage/{name}") for name in names]
    (node,) = read_usage(names, lambda _: read, None).nodes
    assert (node.task, node.attempt, node.rank, node.host) == (0, 1, 0, "node-1")
    assert len(node.points) >= 2
    assert node.points[-1].memory_bytes > 1 << 20
    assert (node.gpu_bytes, node.no_gpus) == ((), "there is no nvidia-smi")


@pytest.mark.parametrize("error", [Failure("no space"), OSError(errno.ENOSPC, "no space left")])
def test_a_store_that_refuses_is_no_failure(tmp_path: Path, error: Exception) -> None:
    store = BadStore(error)
    sampled = usage(store, tmp_path)
    until(lambda: store.tries)

    sampled.finish()

    assert not sampled.is_alive()
    assert len(store.tries) == 2, "it is tried again at the end"


def test_a_store_that_does_not_answer_delays_the_end_by_seconds_only(tmp_path: Path) -> None:
    store = BadStore(None)
    sampled = usage(store, tmp_path)
    until(lambda: store.tries)
    began = time.monotonic()

    sampled.finish()

    assert time.monotonic() - began < LEAVE_S + 5


def test_a_short_job_is_neither_sampled_nor_delayed(tmp_path: Path) -> None:
    store = BadStore(None)

    usage(store, tmp_path).finish()

    assert store.tries == []


def test_sampling_takes_less_than_a_thousandth_of_the_time(tmp_path: Path) -> None:
    own = OwnUsage()
    node = Meter(str(tmp_path), {"PATH": "/nowhere"}, "n", 0.0)
    node.sample(*own.read())
    began_s = time.thread_time()

    for _ in range(SAMPLES):
        node.sample(*own.read())
        node.series.document()

    assert (time.thread_time() - began_s) / SAMPLES < EVERY_S / 1000


def test_a_folder_that_is_removed_at_the_end_leaves_no_empty_disk(tmp_path: Path) -> None:
    node = Meter(str(tmp_path / "job"), {"PATH": "/nowhere"}, "n", 0.0)
    (tmp_path / "job").mkdir()
    node.sample(0.0, 1)
    (tmp_path / "job").rmdir()

    node.sample(0.0, 1)

    first, last = node.series.points
    assert first.disk_bytes == last.disk_bytes > 0


def test_processor_time_and_memory_are_those_of_a_process() -> None:
    held = bytearray(os.urandom(1) * (100 << 20))
    end_s = time.process_time() + 0.5
    while time.process_time() < end_s:
        pass

    found = ProcessTable().process(os.getpid())

    assert found is not None
    assert found.memory_bytes >= len(held)
    assert found.cpu_s == pytest.approx(sum(os.times()[:4]), abs=0.5)


def test_the_usage_of_a_node_is_that_of_the_process_that_measures_it() -> None:
    """And of all below it, but not of the whole machine."""
    assert OwnUsage().pid == os.getpid()


def test_the_memory_of_a_machine_is_what_its_kernel_has() -> None:
    total = re.search(r"^MemTotal: +([0-9]+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)

    assert total is not None
    assert memory_bytes() == pytest.approx(int(total[1]) * 1024, rel=0.05)


def test_the_disk_of_a_node_has_a_size_and_a_part_that_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = SimpleNamespace(f_blocks=100, f_bfree=70, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda folder: space)
    node = Meter(str(tmp_path), {"PATH": "/nowhere"}, "n", 0.0)

    node.sample(0.0, 1)

    assert node.series.about["disk_bytes"] == 100 * 4096
    assert [point.disk_bytes for point in node.series.points] == [30 * 4096]
