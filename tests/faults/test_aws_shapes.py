"""Arrays, nodes and signed jobs: one of each, and nothing left, where they go other ways than a single job.

All other calls are those of a single job, and test_aws.py tries every one of them.
"""

from __future__ import annotations

import itertools

import pytest

from tests.faults import chosen
from tests.faults.cells import spread
from tests.faults.cloud import New
from tests.faults.shapes import SECRET, SHAPES as EVERYWHERE, SINGLE
from tests.faults.struck import Case, traced
from tests.faults.world import Driver
from tests.support.fault_proxy import FAULTS

RECORD, FILES = "PUT /faults/*/record.json", "PUT /faults/*/files"
SUBMIT, END, EMPTY = "POST /v1/submitjob", "POST /v1/terminatejob", "POST /faults"
CHILDREN = "POST /v1/describejobs (2)"  # the first is of the job itself
SHAPES = {**EVERYWHERE, "secret": SECRET}
# Requests to Secrets Manager, and to EC2: to make a secret and to store its value, or to look for one and delete it.
SECRETS = ("POST /", "POST / (2)")
KILLS = {
    "apply": (RECORD, *SECRETS, FILES, SUBMIT),
    "cancel": (CHILDREN, END),
    "destroy": (END, *SECRETS, EMPTY),
    "given up": (FILES, SUBMIT),
}
STRIKES = {"cancel": (CHILDREN, END), "destroy": (EMPTY, *SECRETS)}
# Signed jobs are ended as any array is; only these two leave more in the bucket than a single job.
STRUCK = [
    *(("cancel", shape) for shape in SHAPES if shape not in ("signed", "secret")),
    *(("destroy", shape) for shape in ("nodes on spot", "signed", "secret")),
]
# Those that have most things of their own; the others run with --matrix. Each shape's submission goes wrong below.
SOME = {
    ("apply", "nodes on spot"),
    ("apply", "signed"),
    ("apply", "secret"),
    ("cancel", "nodes on spot"),
    ("destroy", "signed"),
    ("destroy", "secret"),
    ("given up", "nodes on spot"),
}
FEWER = [
    pytest.param(verb, shape, marks=() if (verb, shape) in SOME else pytest.mark.matrix)
    for verb, shape in STRUCK
]
KILLED = [
    pytest.param(*one, marks=() if one in SOME else pytest.mark.matrix)
    for one in itertools.product(KILLS, SHAPES)
]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("verb", "shape"), KILLED)
def test_killed_where_its_shape_counts_and_repeated_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], region: New, verb: str, shape: str
) -> None:
    case = Case(verb, SHAPES[shape])
    kills = traced(wide_pool[0], region, verb, case.shape).kills(*KILLS[verb])

    wrong = spread(
        wide_pool, lambda driver, at: case.killed(driver, region, at), chosen.spaced([*kills])
    )

    assert kills
    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize(("verb", "shape"), FEWER)
def test_a_request_that_goes_wrong_where_its_shape_counts_changes_nothing_in_the_end(
    wide_pool: list[Driver], region: New, verb: str, shape: str
) -> None:
    case = Case(verb, SHAPES[shape])
    strikes = traced(wide_pool[0], region, verb, case.shape).strikes(*STRIKES[verb])
    cells = chosen.spaced(list(itertools.product(FAULTS, strikes)))

    wrong = spread(wide_pool, lambda driver, cell: case.broken(driver, region, *cell), cells)

    assert strikes
    assert {(strikes[at], fault): what for (fault, at), what in wrong.items()} == {}


@pytest.mark.parametrize("shape", ["single", *SHAPES])
def test_a_submission_that_goes_wrong_while_lists_lag_is_one_job_in_the_end(
    wide_pool: list[Driver], region: New, shape: str
) -> None:
    case = Case("apply", SHAPES.get(shape, SINGLE), lag_s=2.0)
    strikes = traced(wide_pool[0], region, "apply", case.shape).strikes(*SECRETS, FILES, SUBMIT)
    cells = chosen.spaced(list(itertools.product(FAULTS, strikes)))

    wrong = spread(wide_pool, lambda driver, cell: case.broken(driver, region, *cell), cells)

    assert SUBMIT in strikes.values()
    assert {(strikes[at], fault): what for (fault, at), what in wrong.items()} == {}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_of_any_shape_is_submitted_by_one_request(
    wide_pool: list[Driver], region: New, shape: str
) -> None:
    found = traced(wide_pool[0], region, "apply", SHAPES[shape])

    assert (found.submits, found.began) == (1, SHAPES[shape].containers)
