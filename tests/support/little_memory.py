"""A control group with little memory, in which the kernel kills what needs more.

Only for tests that are `matrix`: it needs control groups of version 1, and the kernel may choose the tests themselves.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_agent.usage import cgroup
from tests.support.requirements import lack

MIB = 1 << 20
MEMORY_MIB = 700
NEEDS_MORE = f"len(bytearray({MEMORY_MIB * 3 // 2 * MIB}))"  # of Python


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Have this process and its children share little memory, so that the kernel kills the largest of them.

    What they have used before does not count.
    """
    group = cgroup.find()
    if group is None or group.version == 2 or os.geteuid():
        lack("no control group of version 1 that this test may change")
    assert group is not None
    own, new = Path(group.memory), Path(group.memory, f"runspec-{os.getpid()}")
    new.mkdir()
    try:
        (new / "memory.limit_in_bytes").write_text(str(MEMORY_MIB * MIB))
        (new / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        for process in (new / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (own / "cgroup.procs").write_text(process)
        new.rmdir()
