"""Machines that are lost while they save: whoever starts next finds one save, whole, and the last one that counted.

The agent is the one of jobs, started as services start it, with a program that writes two files of one checkpoint. Both
are killed at once, before or after a request to the store, or at any moment. `RUNSPEC_FAULTS=all` has 67 kills for each
store, and files of 400 MB.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from runspec_agent.store.base import Bucket
from runspec_agent.store.manifest import MANIFEST, OBJECTS, PUBLISHED, Manifest, parsed
from tests.faults.chosen import ALL
from tests.support.agent.breakable_stores import Call, Way
from tests.support.two_files import NAMES, PROGRAM
from tests.unit.runspec_agent.job.test_agent import MODEL, Service, service as service  # a fixture

pytestmark = pytest.mark.slow

AT = "runs/r/outputs/my-model/0/0/"
KILLS = 67 if ALL else 8
LONGEST_S = 60.0  # until an attempt has come to the request at which it is to be killed


def manifest(bucket: Bucket) -> Manifest:
    return parsed(bucket.get(AT + MANIFEST), MANIFEST)


def counted(bucket: Bucket, folder: Path) -> int:
    """Give the step of the save that counts; 0 where there is none. Its files are of one step, and whole."""
    steps = set()
    for name, entry in manifest(bucket).files.items():
        assert name in NAMES
        bucket.get_file(AT + OBJECTS + entry.object, str(folder / "file"))
        with (folder / "file").open("rb") as file:
            steps.add(int(file.read(8)))
        assert (folder / "file").stat().st_size == entry.size
    assert len(steps) <= 1, f"the save that counts has files of the steps {sorted(steps)}"
    return steps.pop() if steps else 0


class Attempt:
    """The machine of one attempt, with a disk of its own."""

    def __init__(self, service: Service, number: int, size: int, *, last: bool = False) -> None:
        output = {**MODEL, "sync_s": 0.05}
        self.job = service.starts(
            sys.executable, "-c", PROGRAM, "RUNSPEC_OUTPUT_MY_MODEL", str(size), "/" if last else "/no",
            record={"outputs": [output]}, at=f"machine-{number}", BATCH_TRY=str(number),
        )  # fmt: skip
        self.found: list[int] = []
        self.err = ""
        self._heard = threading.Thread(target=self._hear)
        self._heard.start()

    def _hear(self) -> None:
        assert self.job.stdout is not None and self.job.stderr is not None
        for line in self.job.stdout:
            if line.startswith("found "):
                self.found = [int(word) for word in line.split()[1:]]
        self.err = self.job.stderr.read()

    def is_lost(self) -> None:
        """End all of its processes at once; requests that are under way go on."""
        lost = [self.job.pid]
        for pid in lost:
            try:
                os.kill(pid, signal.SIGSTOP)
                for task in Path(f"/proc/{pid}/task").iterdir():
                    lost += [int(word) for word in (task / "children").read_text().split()]
            except (ProcessLookupError, FileNotFoundError):
                continue
        for pid in lost:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.job.wait()

    def ended(self) -> None:
        self.job.wait(60)
        self._heard.join()


class Loss:
    """Loses the machine of an *attempt* at a request that changes an output: *count* of them, *before* it is done."""

    def __init__(self, count: int, *, before: bool) -> None:
        self.count, self.before = count, before
        self.attempt: Attempt | None = None
        self.done = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, call: Call, *, before: bool) -> None:
        if before != self.before or call.method not in ("PUT", "DELETE", "POST"):
            return
        if "/outputs/" not in call.path:
            return
        with self._lock:
            self.count -= 1
            if self.count == 0 and self.attempt is not None:
                self.attempt.is_lost()
                self.done.set()


def lost_at_requests(service: Service, way: Way, number: int, size: int) -> Attempt:
    """Begin an attempt that is lost at a boundary: each has its turn."""
    count = number // 2 % 16 if size < 100_000_000 else 2 * number  # large files go in many parts
    loss = Loss(1 + count, before=number % 2 == 0)
    way.hook = loss
    attempt = loss.attempt = Attempt(service, number, size)
    if not loss.done.wait(LONGEST_S):
        attempt.is_lost()
    way.hook = None
    return attempt


def lost_at_some_time(service: Service, number: int, size: int) -> Attempt:
    attempt = Attempt(service, number, size)
    time.sleep(random.Random(number).uniform(0.2, 4.0) * (1 + size // 50_000_000))
    attempt.is_lost()
    return attempt


SIZES = [pytest.param(1_000_000, id="1 MB")]
if ALL:
    SIZES.append(pytest.param(400_000_000, id="400 MB"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["s3", "blob", "folder"], indirect=True)
@pytest.mark.parametrize("size", SIZES)
def test_no_start_sees_two_saves_and_none_that_counted_is_lost(
    service: Service, bucket: Bucket, way: Way | None, tmp_path: Path, size: int
) -> None:
    """A kill after the other, of one run."""
    kills = KILLS if size < 100_000_000 else 12
    counts = 0
    for number in range(1, kills + 1):
        if way is not None and number % 4:
            attempt = lost_at_requests(service, way, number, size)
        else:
            attempt = lost_at_some_time(service, number, size)
        attempt.ended()
        assert attempt.found in ([], [counts, counts]), attempt.err
        if way is not None:
            way.is_idle()  # what the lost machine had sent comes to the store all the same
        after = counted(bucket, tmp_path)
        assert after >= counts, "a save that counted is lost"
        counts = after

    assert counts > 0, "nothing was saved at all"
    last = Attempt(service, kills + 1, size, last=True)
    last.ended()

    assert (last.job.returncode, last.found) == (0, [counts, counts]), last.err
    assert counted(bucket, tmp_path) == counts + 1
    objects = {AT + OBJECTS + name for name in manifest(bucket).objects}
    plain = {AT + name for name in NAMES}
    ours = {AT + MANIFEST, AT + PUBLISHED}
    assert {one.key for one in bucket.listing(AT)} == objects | plain | ours


def test_a_test_of_losses_sees_them(service: Service, tmp_path: Path) -> None:
    """The program does write two files, one after the other, and is gone when its machine is."""
    attempt = Attempt(service, 1, 100)
    end = time.monotonic() + 60
    while not attempt.found:
        assert time.monotonic() < end
        time.sleep(0.01)
    attempt.is_lost()
    attempt.ended()

    found = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True)
    assert found.stdout == ""
