"""Jobs whose nodes come and go: one of each, and nothing left, where they go other ways than jobs of a fixed size.

Few cells: the requests are those of an array, or of single tasks, and the others are tried for these. What differs is
what runs in the nodes, so this is about whether all of it ends, and only one job's program has run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, NamedTuple

import pytest

from runspec_emulators.slurm import Cluster, Shape as Machine
from tests.faults import cells, chosen
from tests.faults.aws import AwsCloud
from tests.faults.azure import AzureCloud
from tests.faults.cells import spread
from tests.faults.cloud import Cloud, New, ended as cloud_ended
from tests.faults.conftest import drivers
from tests.faults.shapes import BOTH, ELASTIC
from tests.faults.slurm import slurm
from tests.faults.struck import Case, located, traced
from tests.faults.test_kill import boundaries
from tests.faults.world import (
    LONG,
    QUICK,
    STUBBORN,
    Driver,
    World,
    await_that,
    new_world,
)
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

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
    if not chosen.ALL:  # what counts is that a request was carried out, and nobody heard of it
        kills = {what: place for what, place in kills.items() if place[0] == "apply"}
        strikes = {what: place for what, place in strikes.items() if place[0] != "apply"}

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
        both = BOTH.replace(" 0[.]1 ", " 1 [0-9]* one")  # no task stands in the truth of one job
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


# A node that waits for a machine when the job is over is called off by whoever looks next.

UNTIL_TOLD = 'until [ -e "$TRUTH.go" ]; do sleep 0.1; done'
Wait = Callable[[Any, str], None]


def taken_on_aws(cloud: AwsCloud, run: str) -> None:
    """Have the second node lose its machine, and no other come."""
    cloud.await_truth(2)
    cloud.region.control("PUT", "settings", {"capacity": "none"})
    (lost,) = (job["id"] for job in cloud.jobs() if job["id"].endswith(":1"))
    cloud.region.control("POST", "reclaim", {"jobId": lost, "notice_s": 0})


def none_on_azure(cloud: AzureCloud, run: str) -> None:
    """Have no machine for the second node: the only one is not free before that is seen."""
    cloud.await_truth(1)
    with cloud.account.world.lock:
        cloud.account.world.jobs[run].tasks["task-00001"].ready_at = math.inf


def seen_over(cloud: Cloud, wait: Wait, **how: Any) -> list[str]:
    """A status that calls a node off is killed or struck, and repeated."""
    if isinstance(cloud, AzureCloud):
        cloud.account.control("PUT", "settings", {"dedicated_quota": 1})
    done = cloud.run("apply", "faults.yaml", "--detach")
    assert done.code == 0, done.err
    run = done.out.strip()
    wait(cloud, run)
    (cloud.folder / "truth.go").touch()
    await_that(lambda: len(cloud.alive()) - isinstance(cloud, AwsCloud) == 1, "the first to end")
    cloud.run("status", run, **how)
    cloud.again("status", run)
    return [*cloud_ended(cloud, "succeeded")]


@pytest.mark.parametrize(
    ("where", "wait", "request_"),
    [
        ("region", taken_on_aws, "POST /v1/terminatejob"),
        ("account", none_on_azure, "POST batch /jobs/*/tasks/task-00001/terminate"),
    ],
    ids=["aws", "azure"],
)
def test_a_node_that_never_came_is_called_off_whatever_happens_to_who_does_it(
    request: pytest.FixtureRequest, where: str, wait: Wait, request_: str
) -> None:
    new: New = request.getfixturevalue(where)
    pool: list[Driver] = request.getfixturevalue({"region": "wide_pool"}.get(where, "azure_pool"))

    def world(driver: Driver) -> AbstractContextManager[Cloud]:
        return new(driver, UNTIL_TOLD, 0.0, ELASTIC)

    with world(pool[0]) as cloud:
        assert seen_over(cloud, wait) == []
        found = located(cloud.log[1].steps)
    kills, strikes = found.kills(request_), found.strikes(request_)
    assert len(kills) == 2 and len(strikes) == 1, found.requests
    hows: list[dict[str, Any]] = [{"at": at} for at in kills]
    hows += [{"wire": {"at": at, "fault": "reset after"}} for at in strikes]

    def cell(driver: Driver, number: int) -> list[str]:
        with world(driver) as cloud:
            return seen_over(cloud, wait, **hows[number])

    assert spread(pool, cell, range(len(hows))) == {}
