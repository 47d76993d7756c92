"""Machines that are lost while they save: whoever starts next finds one save, whole, and the last one that counted.

The agent is the one of jobs, started as services start it, with a program that writes two files of one checkpoint. Both
are killed at once, before or after a request to the store, or at any moment. `RUNSPEC_FAULTS=all` has a kill before and
after each request of three saves, 67 kills at least for each store, and files of 400 MB.
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
from typing import NamedTuple

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
SAVES = 3  # of which every request is a boundary
LARGE = 100_000_000  # bytes
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


class Boundary(NamedTuple):
    """One of the requests of an attempt that change an output, counted from 1; *before* it is done or after."""

    number: int
    before: bool


def changes(call: Call) -> bool:
    return call.method in ("PUT", "DELETE", "POST") and "/outputs/" in call.path


class Count:
    """Counts the requests that change an output, until SAVES saves count."""

    def __init__(self) -> None:
        self.count = self.saves = 0
        self.done = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, call: Call, *, before: bool) -> None:
        with self._lock:
            if self.done.is_set() or not changes(call):
                return
            self.count += before
            self.saves += not before and MANIFEST in call.path
            if self.saves == SAVES:
                self.done.set()


class Loss:
    """Loses the machine of an *attempt* at a boundary."""

    def __init__(self, at: Boundary) -> None:
        self.count, self.before = at
        self.attempt: Attempt | None = None
        self.done = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, call: Call, *, before: bool) -> None:
        if before != self.before or not changes(call):
            return
        with self._lock:
            self.count -= 1
            if self.count == 0 and self.attempt is not None:
                self.attempt.is_lost()
                self.done.set()


def kills(service: Service, way: Way | None, size: int) -> list[Boundary | None]:
    """Return where the attempts after the first one are lost: at boundaries, or, for None, at some time.

    The first attempt counts the boundaries. Large files go in many parts, of which few are tried.
    """
    if way is None:
        return [None] * (KILLS if size < LARGE else 12)
    if size >= LARGE:
        return [Boundary(1 + 2 * n, n % 2 == 0) if n % 4 else None for n in range(1, 13)]
    way.hook = count = Count()
    attempt = Attempt(service, 1, size)
    assert count.done.wait(LONGEST_S)
    attempt.is_lost()
    attempt.ended()
    way.hook = None
    way.is_idle()
    every = [Boundary(n, before) for n in range(1, count.count + 1) for before in (True, False)]
    chosen = every if ALL else [every[n * len(every) // 6] for n in range(6)]
    return [*chosen, *[None] * max(KILLS - len(chosen), 2)]


def lost_at(service: Service, way: Way, number: int, size: int, at: Boundary) -> Attempt:
    """Begin an attempt that is lost at a boundary."""
    way.hook = loss = Loss(at)
    attempt = loss.attempt = Attempt(service, number, size)
    reached = loss.done.wait(LONGEST_S)
    if not reached:
        attempt.is_lost()
    way.hook = None
    assert reached or size >= LARGE, f"no request {at.number} of this attempt changed an output"
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
    tried = kills(service, way, size)
    counts = counted(bucket, tmp_path)
    for number, at in enumerate(tried, 2):
        if way is not None and at is not None:
            attempt = lost_at(service, way, number, size, at)
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
    last = Attempt(service, len(tried) + 2, size, last=True)
    last.ended()

    assert (last.job.returncode, last.found) == (0, [counts, counts]), last.err
    assert counted(bucket, tmp_path) == counts + 1
    objects = {AT + OBJECTS + name for name in manifest(bucket).objects}
    plain = {AT + name for name in NAMES}
    ours = {AT + MANIFEST, AT + PUBLISHED}
    assert {one.key for one in bucket.listing(AT)} == objects | plain | ours


def test_the_test_of_losses_finds_planted_losses(service: Service, tmp_path: Path) -> None:
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
