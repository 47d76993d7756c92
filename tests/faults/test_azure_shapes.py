"""Collections of tasks, nodes, sweeps and MPI on Azure: one of each, and nothing left, where they go other ways.

All other requests are those of a single job, which test_azure.py tries. Every job on Azure Batch reaches its files by
what is signed for it, so there is no shape for that; those with an `identity` are tried by test_azure_vault.py.
Lists lag two seconds where a submission goes wrong: those of Azure Batch, and of the files that Batch AI's jobs print.
Its other lists are of what ARM keeps, and the stand-in has no lag for them. All of this is tried, nothing is sampled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from runspec_emulators.azure_services.blob import Blobs
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.faults import chosen
from tests.faults.azure import azure
from tests.faults.batchai import JOB, batchai
from tests.faults.cells import spread
from tests.faults.cloud import New
from tests.faults.shapes import ON_AZURE, ON_BATCH_AI, SINGLE, Shape
from tests.faults.struck import Case, traced
from tests.faults.world import Driver
from tests.support.fault_proxy import FAULTS

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)]

TASKS, END = "POST batch /jobs/*/addtaskcollection", "POST batch /jobs/*/terminate"
MAKE, STOP, DELETE = f"PUT arm {JOB}", f"POST arm {JOB}/terminate", f"DELETE arm {JOB}"
SINGLE_ON_BATCH_AI = "a job of one node"
SHAPES: Mapping[str, Shape] = {
    "a task": SINGLE,
    **ON_AZURE,
    SINGLE_ON_BATCH_AI: SINGLE,
    **ON_BATCH_AI,
}
KILLS = {
    "azure": {"apply": TASKS, "cancel": END, "destroy": END, "given up": TASKS},
    "batch-ai": {"apply": MAKE, "cancel": STOP, "destroy": DELETE, "given up": MAKE},
}
ALL = [*ON_AZURE, *ON_BATCH_AI]
# `apply` where it is more than one request, and every verb of one shape on Batch AI, of which test_azure.py tries none.
# Azure Batch ends a job by one request, of whatever shape it is: test_azure.py tries that. The rest runs with --matrix.
SWEEP, TWICE = next(iter(ON_BATCH_AI)), ("apply", next(iter(ON_AZURE)))
KILLED = [
    pytest.param(*one, marks=() if one == TWICE or SWEEP in one else pytest.mark.matrix)
    for one in itertools.product(KILLS["azure"], ALL)
]


class Place(NamedTuple):
    """Where a shape is tried."""

    new: New
    kills: Mapping[str, str]
    submits: str


def place(shape: str, blobs: Blobs, mpi: Path) -> Place:
    if shape in ON_BATCH_AI or shape == SINGLE_ON_BATCH_AI:
        return Place(batchai(blobs, mpi), KILLS["batch-ai"], MAKE)
    return Place(azure(blobs), KILLS["azure"], TASKS)


def all_of(label: str, wanted: str) -> bool:
    """Say whether *label* is *wanted*, the first one or a later one."""
    return label.partition(" (")[0] == wanted


@pytest.mark.parametrize(("verb", "shape"), KILLED)
def test_killed_where_its_shape_counts_and_repeated_it_is_as_if_nothing_had_happened(
    azure_pool: list[Driver], blobs: Blobs, mpi: Path, verb: str, shape: str
) -> None:
    where, case = place(shape, blobs, mpi), Case(verb, SHAPES[shape])
    found = traced(azure_pool[0], where.new, verb, case.shape).kills()
    kills = {at: s for at, s in found.items() if all_of(s.partition(" ")[2], where.kills[verb])}

    wrong = spread(
        azure_pool, lambda driver, at: case.killed(driver, where.new, at), chosen.spaced([*kills])
    )

    assert kills
    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_submission_that_goes_wrong_while_lists_lag_is_one_job_in_the_end(
    azure_pool: list[Driver], blobs: Blobs, mpi: Path, shape: str
) -> None:
    where, case = place(shape, blobs, mpi), Case("apply", SHAPES[shape], lag_s=2.0)
    requests = traced(azure_pool[0], where.new, "apply", case.shape).strikes()
    strikes = {at: s for at, s in requests.items() if all_of(s, where.submits)}
    cells = chosen.spaced(list(itertools.product(FAULTS, strikes)))

    wrong = spread(azure_pool, lambda driver, cell: case.broken(driver, where.new, *cell), cells)

    assert strikes
    assert {(strikes[at], fault): what for (fault, at), what in wrong.items()} == {}


@pytest.mark.parametrize("shape", ALL)
def test_a_job_of_any_shape_is_submitted_by_as_many_requests_as_it_has_parts(
    azure_pool: list[Driver], blobs: Blobs, mpi: Path, shape: str
) -> None:
    where = place(shape, blobs, mpi)

    found = traced(azure_pool[0], where.new, "apply", SHAPES[shape])

    sent = found.labels.count(f"send {where.submits}")
    assert sent == {"collections of tasks": 2, "jobs of a sweep": 2}.get(shape, 1)
    assert found.began == SHAPES[shape].containers
