"""The page of a chain shows each job, also one of whose run nothing is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runspec_jobs.api.chains import JobStatus
from runspec_jobs.cli import chain as module

CHAIN = cast(Any, SimpleNamespace(name="all", record=SimpleNamespace(path=Path("all.yaml"))))
RUN = cast(Any, SimpleNamespace(id="train-abc123"))


@pytest.mark.parametrize("run", [None, RUN])
def test_a_job_without_a_status_has_a_row(run: Any) -> None:
    """It has not started, or its run was deleted, so there is nothing to ask a service about."""
    ends = [JobStatus("train", "not-started", "", {}, run, None)]

    page = module.make_page(CHAIN, ends)

    assert "1 not-started" in page and ">train</td>" in page
    assert "train-abc123" not in page
