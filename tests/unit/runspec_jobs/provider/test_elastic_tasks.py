"""How a job has ended whose nodes come and go, by what they and whoever stops its tasks have written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.provider.elastic_tasks import elastic_end

ELASTIC = {"min": 1, "max": 4}
DONE = json.dumps({"phase": "done", "code": 0, "why": ""}).encode()
BAD = json.dumps({"phase": "done", "code": 7, "why": "it failed"}).encode()
RUNS = json.dumps({"phase": "running"}).encode()
WIDE = {"elastic": ELASTIC, "nodes": 1}  # each node is a task of the service
ARRAY = {"elastic": ELASTIC, "nodes": 4}


@pytest.mark.parametrize(
    ("record", "there", "found"),
    [
        (WIDE, {"elastic/0/state": DONE, "elastic/1/state": BAD}, (7, "it failed")),
        (WIDE, {"elastic/0/state": DONE, "elastic/1/state": RUNS}, None),
        (WIDE, {"elastic/0/state": DONE, "elastic/1/state": RUNS, "stop/4": b""}, (0, "")),
        (WIDE, {"elastic/0/state": DONE, "elastic/1/state": RUNS, "stop/1": b""}, None),
        (WIDE, {"elastic/0/state": DONE, "stop/4": b""}, (0, "")),
        (WIDE, {"elastic/0/state": DONE, "elastic/1/state": BAD, "stop/4": b""}, (7, "it failed")),
        (WIDE, {"stop/0": b"", "stop/4": b""}, None),
        (ARRAY, {"elastic/0/state": DONE, "elastic/1/state": RUNS, "stop/1": b""}, (0, "")),
        ({"nodes": 1}, {"elastic/0/state": DONE, "elastic/1/state": DONE}, None),
    ],
)
def test_a_job_has_ended_when_all_of_its_tasks_have_that_were_not_stopped(
    record: dict[str, Any], there: dict[str, bytes], found: tuple[int, str] | None
) -> None:
    assert elastic_end(record, 2, there.get) == found
