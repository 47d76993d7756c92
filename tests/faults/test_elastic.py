"""Jobs whose nodes come and go: one of each, and nothing left, where they go other ways than jobs of a fixed size.

Few cells: the requests are those of an array, or of single tasks, and the others are tried for these. What differs is
what runs in the nodes, so this is about whether all of it ends, and only one job's program has run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, NamedTuple

import pytest

from runspec_rehearsal.slurm import Cluster, Shape as Machine
from tests.faults import cells
from tests.faults.cells import spread
from tests.faults.cloud import New
from tests.faults.conftest import drivers
from tests.faults.shapes import BOTH, ELASTIC
from tests.faults.slurm import slurm
from tests.faults.struck import Case, traced
from tests.faults.test_kill import boundaries
from tests.faults.world import LONG, QUICK, STUBBORN, Driver, World, new_world
from tests.needs import need
from tests.slurm import PROGRAMS

pytestmark = pytest.mark.slow


class Told(NamedTuple):
    """The requests of a service that begin a job and end it, and faults after which nobody knows what was done."""

    submit: str
    end: tuple[str, ...]
    submit_fault: str
    end_fault: str


LOST = ("reset after", "reset after")
AWS = Told("POST /v1/submitjob", ("POST /v1/terminatejob",), *LOST)
AZURE = Told("POST batch /jobs/*/addtaskcollection", ("POST batch /jobs/*/terminate",), *LOST)
SLURM = Told(
    "POST sbatch",
    ("DELETE scancel --state", "DELETE scancel --batch", "DELETE scancel"),
    "sbatch times out after",
    "scancel times out after",
)


def wrong_with(pool: list[Driver], new: New, told: Told) -> Mapping[str, list[str]]:
    """Give what is wrong after the kills and the faults."""
    wanted = {"apply": (told.submit,), "cancel": told.end, "destroy": told.end}
    found = {}

    def trace(driver: Driver, verb: str) -> list[str]:
        found[verb] = traced(driver, new, verb, ELASTIC)
        return []

    assert spread(pool, trace, wanted) == {}
    kills = {
        f"{verb} killed: {label}": (verb, at)
        for verb, request in wanted.items()
        for at, label in found[verb].kills(*request).items()
        if label.startswith("sent ")
    }
    strikes = {
        f"{verb} struck: {label}": (verb, at)
        for verb, request in wanted.items()
        for at, label in found[verb].strikes(*request).items()
    }
    for tried in (kills, strikes):
        assert {verb for verb, _ in tried.values()} == set(wanted)

    def cell(driver: Driver, what: str) -> list[str]:
        if what in kills:
            verb, at = kills[what]
            return Case(verb, ELASTIC).killed(driver, new, at)
        verb, at = strikes[what]
        if verb == "apply":
            return Case(verb, ELASTIC, 2.0).broken(driver, new, told.submit_fault, at)
        return Case(verb, ELASTIC).broken(driver, new, told.end_fault, at)

    return spread(pool, cell, [*kills, *strikes])


def test_on_aws_batch_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], region: New
) -> None:
    assert wrong_with(wide_pool, region, AWS) == {}


def test_on_azure_batch_it_is_as_if_nothing_had_happened(
    azure_pool: list[Driver], account: New
) -> None:
    assert wrong_with(azure_pool, account, AZURE) == {}


def test_on_slurm_it_is_as_if_nothing_had_happened(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    need(*PROGRAMS)
    machine = Machine(cpus=64, memory_mb=None)
    with (
        Cluster(tmp_path_factory.mktemp("c"), 2, machine, more={"KillWait": 1}) as cluster,
        drivers(6, "slurm") as pool,
    ):
        assert wrong_with(pool, slurm(cluster), SLURM) == {}


class OnLocal(World):
    """A world whose job has nodes that come and go; the outputs of the first are kept."""

    nodes: ClassVar[str] = "{min: 1, max: 2}"
    saving: ClassVar[tuple[str, ...]] = ("0",)

    def written(self, name: str, last: str) -> str:
        both = BOTH.replace("0.1 ", " 1 [0-9]* one")  # no task stands in the truth of one job
        return super().written(name, both if last == QUICK else last)


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "new_world", partial(new_world, kind=OnLocal))


@pytest.mark.usefixtures("local")
def test_on_this_machine_it_is_as_if_nothing_had_happened(pool: list[Driver]) -> None:
    """Killed at some boundaries of each verb: they are those of any job here."""
    verbs: Mapping[str, cells.Cell] = {
        "apply": cells.apply,
        "cancel": cells.cancel,
        "destroy": cells.destroy,
    }
    places = [
        (cell, at)
        for verb, cell in verbs.items()
        for at in cells.sample(len(boundaries(pool[0], verb)), 2)
    ]

    wrong = spread(pool, lambda driver, place: place[0](driver, place[1]), places)

    assert {f"{cell.__name__} at {at}": what for (cell, at), what in wrong.items()} == {}


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(("verb", "last"), [("cancel", LONG), ("destroy", STUBBORN)])
def test_nodes_on_this_machine_end_with_their_supervisor(
    driver: Driver, verb: str, last: str
) -> None:
    assert cells.orphaned(driver, verb, last) == []
