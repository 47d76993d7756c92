"""The files of runs are read alike from any store, and what no longer changes is read once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from runspec_jobs.provider.elastic_tasks import ELASTIC
from runspec_objects.run_files import RunFiles

RUN = "train-7k2m9q"
RECORD = {"nodes": 1, "sweep": [["lr", ["1", "2", "3"]]], "elastic": None}


class Kept(dict[str, bytes]):
    """A store in memory; `asked` has the keys that were read, and the prefixes that were listed."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__({f"pre/runs/{RUN}/{path}": content for path, content in files.items()})
        self.asked: list[str] = []

    def read(self, key: str) -> bytes | None:
        self.asked.append(key)
        return self.get(key)

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.read(key) for key in keys]

    def names(self, prefix: str) -> list[str]:
        self.asked.append(prefix)
        return [key.removeprefix(prefix) for key in sorted(self) if key.startswith(prefix)]


def opened(files: dict[str, bytes]) -> tuple[RunFiles, Kept]:
    store = Kept(files)
    return RunFiles(store, "pre/"), store


def test_a_record_is_read_once_and_again_when_it_was_forgotten() -> None:
    record = json.dumps({"format": "runspec.run/v1", "run": RUN}).encode()
    kept, store = opened({"record.json": record})

    assert [kept.record(RUN), kept.record(RUN)] == [json.loads(record)] * 2
    assert store.asked == [f"pre/runs/{RUN}/record.json"]
    store.clear()
    kept.records.clear()
    assert kept.record(RUN) is None


def test_names_that_are_no_numbers_are_no_tasks() -> None:
    kept, _ = opened({"stop/1": b"", "stop/20": b"", "stop/a": b"", "stop/1.tmp": b""})

    assert kept.numbers(RUN, "stop/") == {1, 20}


@pytest.mark.parametrize(("most", "halted"), [(None, set()), (2, {1}), (3, set())])
def test_tasks_are_halted_when_max_failed_others_have_failed(
    most: int | None, halted: set[int]
) -> None:
    """Without that limit, the store is not asked."""
    kept, store = opened({"failed/0": b"", "failed/2": b""})
    record = RECORD if most is None else {**RECORD, "max_failed": most}

    assert kept.halted(RUN, record, 3) == halted
    assert bool(store.asked) == (most is not None)


@pytest.mark.parametrize(("most", "counted"), [(1, []), (2, [1]), (9, [1])])
def test_a_failed_task_that_nobody_has_counted_is_counted_once(
    most: int, counted: list[int]
) -> None:
    """Not once the limit is reached: tasks end then that have not failed."""
    kept, store = opened({"failed/0": b"", "stop/2": b""})
    made: list[str] = []

    for _ in range(2):
        kept.count_failed(RUN, {**RECORD, "max_failed": most}, {0, 1, 2}, made.append)

    assert made == [f"pre/runs/{RUN}/failed/{task}" for task in counted]
    assert store.asked.count(f"pre/runs/{RUN}/failed/") == 1


def test_the_end_of_an_elastic_job_is_read_until_there_is_one() -> None:
    state = {"format": ELASTIC, "phase": "done", "code": 3, "why": "it failed"}
    kept, store = opened({})
    record = {**RECORD, "elastic": {"min": 1, "max": 2}}

    assert kept.elastic_end(RUN, record, 1) is None
    store[f"pre/runs/{RUN}/elastic/0/state"] = json.dumps(state).encode()
    assert kept.elastic_end(RUN, record, 1) == (3, "it failed")
    store.clear()
    assert kept.elastic_end(RUN, record, 1) == (3, "it failed")
