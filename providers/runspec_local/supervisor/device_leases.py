"""Leases of GPUs: a task has its GPUs for itself, whichever run they belong to. Standard library only.

Each GPU has a lock file. The parent of the supervisor opens the files before it forks, so that both have the
same locks: if the supervisor is killed, its GPUs are free when its parent has ended what the supervisor left behind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from runspec_agent.base import file_lock
from runspec_agent.base.light_typing import Any
from runspec_local.session.gpus import Gpu
from runspec_local.supervisor.process import locked

LOOK_S = 0.5  # between two attempts of a task that waits: nothing reports that a lock was released
Devices = Sequence[Sequence[Gpu]]  # the GPUs of each node of a task


def record(folder: Path, gpus: Sequence[Gpu]) -> dict[str, Any]:
    """Return what `job.json` has of the GPUs. Locks are of one machine, also if *folder* is on a shared disk."""
    host = quote(os.uname().nodename, safe="")
    return {"locks": str(folder / "gpus" / host), "gpus": [[gpu.index, gpu.uuid] for gpu in gpus]}


class DeviceLeases:
    """The GPUs that the tasks of *job* may use, and those that they have."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._run = job.get("run", "")
        self._each, self._nodes = job.get("gpus", 0), job.get("nodes", 1)
        devices = job.get("devices") or {"locks": "", "gpus": []}
        self._gpus = [Gpu(*fields) for fields in devices["gpus"]]
        self._locks: dict[Gpu, int] = {}
        self._taken: dict[int, list[Gpu]] = {}
        self._turn = -1
        self.waits = False  # whether a task waits, and has the turn or waits for it
        if self._gpus:
            self._open(Path(devices["locks"]))

    def _open(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for gpu in self._gpus:
            self._locks[gpu] = _opened(folder / quote(gpu.name, safe=""))
        import hashlib  # takes as long to import as all of this module, and most jobs have no GPU

        names = ",".join(sorted(gpu.name for gpu in self._gpus))
        same = hashlib.sha256(names.encode()).hexdigest()[:16]
        self._turn = _opened(folder / f"turn-{same}")

    def take(self, task: int) -> Devices | str:
        """Take the GPUs of all nodes of *task*, or none: then return why the task waits.

        The first task that waits has the turn, and tasks that may use the same GPUs take none before it does. Otherwise
        tasks that need few GPUs could keep one that needs many waiting for ever.
        """
        need = self._each * self._nodes
        if not self._gpus:
            return [()] * self._nodes
        self.waits = True
        if not locked(self._turn):
            return f"needs {_count(need)}, and another task waits for GPUs before it"
        others = {gpu for taken in self._taken.values() for gpu in taken}
        free: list[Gpu] = []
        for gpu in self._gpus:
            if len(free) < need and gpu not in others and locked(self._locks[gpu]):
                free.append(gpu)
        if len(free) < need:
            self._unlock(free)
            return self._why(need, len(free), set(free))
        for gpu in free:
            os.ftruncate(self._locks[gpu], 0)
            os.pwrite(self._locks[gpu], self._run.encode(), 0)
        self._taken[task] = free
        self.wait_no_more()
        return [free[n * self._each : (n + 1) * self._each] for n in range(self._nodes)]

    def give_back(self, task: int) -> None:
        self._unlock(self._taken.pop(task, []))

    def wait_no_more(self) -> None:
        """Pass the turn on: the task that waited has its GPUs, or does not need them any more."""
        self.waits = False
        if self._turn >= 0:
            file_lock.free(self._turn)

    def _unlock(self, gpus: Sequence[Gpu]) -> None:
        for gpu in gpus:
            file_lock.free(self._locks[gpu])  # in the supervisor's parent as well

    def _why(self, need: int, free: int, mine: set[Gpu]) -> str:
        runs = {
            os.pread(self._locks[gpu], 256, 0).decode() for gpu in self._gpus if gpu not in mine
        }
        used = f", used by {', '.join(sorted(runs - {''}))}" if runs - {""} else ""
        return f"needs {_count(need)}, and {free} of {len(self._gpus)} {'is' if free == 1 else 'are'} free{used}"


def _count(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
