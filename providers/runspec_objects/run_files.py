"""The files of runs in a store. Nodes write them alike on all services, so that clients read them alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from runspec_jobs.provider import MembershipChange
from runspec_jobs.provider.elastic_tasks import elastic_changes, elastic_end
from runspec_jobs.provider.job_manifest import read_record
from runspec_jobs.provider.machines import Usage, read_usage
from runspec_jobs.provider.node_ends import NodeEnds, read_names
from runspec_jobs.provider.types import list_halted

Record = Mapping[str, Any]


class ReadStore(Protocol):
    """How a store is read. Every method raises the errors of `Client.call`."""

    def read(self, key: str, /) -> bytes | None:
        """Return the content of a small object, or None."""

    def read_all(self, keys: Sequence[str], /) -> Sequence[bytes | None]:
        """Return the contents of small objects in the order of *keys*."""

    def names(self, prefix: str, /) -> Sequence[str]:
        """Return all keys that begin with *prefix*, without it."""


class RunFiles:
    """The files of runs, whose keys begin with *root*."""

    def __init__(self, store: ReadStore, root: str = "") -> None:
        self._store, self._root = store, root
        self.records: dict[str, dict[str, Any]] = {}  # those that were read
        self._ends: dict[str, NodeEnds] = {}
        self._elastic_ends: dict[str, tuple[int, str]] = {}
        self._counted: dict[str, set[int]] = {}  # failed tasks that `count_failed` has seen

    def key(self, run: str, path: str) -> str:
        return f"{self._root}runs/{run}/{path}"

    def read(self, run: str, path: str) -> bytes | None:
        return self._store.read(self.key(run, path))

    def read_all(self, run: str, folder: str, names: Sequence[str]) -> Sequence[bytes | None]:
        """Return the contents of files in *folder*, which is empty or ends with a slash."""
        return self._store.read_all([self.key(run, folder + name) for name in names])

    def record(self, run: str) -> dict[str, Any] | None:
        """Return the record of *run*, which is read once; None if it was destroyed."""
        if run not in self.records:
            content = self.read(run, "record.json")
            if content is None:
                return None
            self.records[run] = read_record(content, f"the record of {run}")
        return self.records[run]

    def names(self, run: str, folder: str) -> Sequence[str]:
        """Return the names of all files below *folder*, which ends with a slash."""
        return self._store.names(self.key(run, folder))

    def numbers(self, run: str, folder: str) -> set[int]:
        """Return the numbers that are names of files in *folder*: of tasks in `stop/`, `failed/` and `released/`."""
        return {int(name) for name in self.names(run, folder) if name.isdigit()}

    def halted(self, run: str, record: Record, count: int) -> set[int]:
        """Return those of *count* tasks that are to end because `max_failed` others have failed."""
        if "max_failed" not in record:
            return set()
        return list_halted(record, self.numbers(run, "failed/"), count)

    def count_failed(
        self, run: str, record: Record, failed: Collection[int], put: Callable[[str], object]
    ) -> None:
        """Write `failed/TASK` for those of *failed* whose agents were killed with them, and so could not.

        *failed* are tasks of a run with `max_failed` that have failed for good: the service was asked before this
        call, so that tasks that ended because the limit was reached are not counted. *put* writes an empty file.
        """
        new = {*failed} - self._counted.setdefault(run, set())
        if not new:
            return
        counted = self.numbers(run, "failed/")
        if len(counted) < record["max_failed"] and (new - counted):
            for task in sorted(new - counted - self.numbers(run, "stop/")):
                put(self.key(run, f"failed/{task}"))
        self._counted[run] |= new

    def ends(self, run: str, record: Record) -> NodeEnds:
        """Return the end records of *run*, always the same object; they are read when attempts have ended."""
        if run not in self._ends:
            self._ends[run] = NodeEnds(
                record,
                lambda: self.names(run, "ends/"),
                lambda names: self.read_all(run, "ends/", names),
            )
        return self._ends[run]

    def elastic_end(self, run: str, record: Record, count: int) -> tuple[int, str] | None:
        """Return how an elastic job of *count* tasks has ended according to its nodes, or None."""
        if run not in self._elastic_ends:
            end = elastic_end(record, count, lambda path: self.read(run, path))
            if end is None:
                return None
            self._elastic_ends[run] = end
        return self._elastic_ends[run]

    def changes(self, run: str) -> list[MembershipChange]:
        """Return the membership changes of an elastic job, with a list for each task and a read for each change."""
        return elastic_changes(
            self.record(run) or {},
            lambda folder: self.names(run, folder),
            lambda paths: self.read_all(run, "", paths),
        )

    def count_ended(self, run: str, task: int, rank: int) -> int:
        """Return the number of the last attempt of a node whose end its agent has recorded; 0 without any."""
        ends = read_names(self.names(run, "ends/"))
        return max((key[2] for key in ends if key[:2] == (task, rank)), default=0)

    def usage(self, run: str, most: int | None) -> Usage:
        """Return what *most* nodes or all have used."""
        return read_usage(
            self.names(run, "usage/"), lambda names: self.read_all(run, "usage/", names), most
        )
