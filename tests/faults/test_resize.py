"""Nodes of an elastic job are given back and asked for again by commands that are killed, or get no answer.

Each cell disturbs `resize` or `release` on the way down at one place and `resize` on the way up at another, and repeats
both, the second at times on another machine. Then one job has run, no step of its first node was done again, no node
that was given back was paid meanwhile, both have come back, and nothing is left over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from runspec_emulators.slurm import Cluster, Shape as Machine
from tests.faults import cloud as clouds
from tests.faults.aws import AwsCloud
from tests.faults.azure import AzureCloud
from tests.faults.cells import spread
from tests.faults.chosen import asked_first, changes, spaced
from tests.faults.cloud import Cloud, New
from tests.faults.conftest import drivers
from tests.faults.kubernetes import KubernetesCloud
from tests.faults.shapes import ELASTIC
from tests.faults.slurm import SlurmCloud, slurm
from tests.faults.struck import Traced, excused, located
from tests.faults.test_elastic import OnLocal, Wait, none_on_azure, taken_on_aws
from tests.faults.world import PROFILE, Driver, Ended, World, always, await_that, new_world
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow

How = Mapping[str, Any]
FAULT = "reset after"  # of a request, which was carried out
OF_SLURM = "scontrol times out after"
DOWN = (("resize", "1"), ("release", "1"), ("release", "0"))
PATIENT = "30s"  # for a program to save on a busy machine
# Counts steps, and begins with those of the last save.
COUNTS = """\
step=$(cat "${outputs.out}/step" 2>/dev/null || echo 0)
  echo "$RUNSPEC_RANK begins with $step" >>"$TRUTH.steps"
  trap 'echo $step >"${outputs.out}/step"; echo "$RUNSPEC_RANK ends with $step" >>"$TRUTH.steps"; exit 1' TERM
  until [ -e "$TRUTH.go" ]; do step=$((step + 1)); sleep 0.1; done"""


class Hows(NamedTuple):
    """How the command that shrinks a job (*down*) and the one that grows it (*up*) are disturbed.

    The command is repeated on this machine or, with *elsewhere*, on another one.
    """

    down: How
    up: How
    elsewhere: bool = False
    verb: Sequence[str] = DOWN[0]


class Counting(OnLocal):
    """A world on this machine whose program has time to save."""

    patience_s: ClassVar[float] = 120.0  # type: ignore[misc]  # the same for all

    def __post_init__(self) -> None:
        super().__post_init__()
        own_profile(self.folder / ".config").write_text(PROFILE.replace("1s", PATIENT))


def start(world: World) -> str:
    done = world.run("apply", "faults.yaml", "--detach")
    assert done.code == 0, done.err
    world.await_truth(2)
    return done.out.strip()


def size(world: World, run: str) -> tuple[int, int]:
    found = json.loads(world.run("status", run, "--json").out)["size"]
    return found["asked"], found["present"]


def change(
    world: World, words: Sequence[str], how: How, again: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """Change the nodes by a command that is disturbed as *how* says, and repeated."""
    world.run(*words, **how)
    done = world.again(*words, **(again or {}))
    if done.code:
        yield f"{' '.join(words)} ends with {done.code}: {done.err.strip()[-300:]}"


def adopt(world: World, run: str) -> dict[str, Any]:
    """Have another machine know the run; return its environment."""
    assert isinstance(world, Cloud)
    found = {"env": {**world.environment(), "RUNSPEC_HOME": str(world.folder / "home" / "other")}}
    done = world.again("adopt", world.provider, run, **found)
    assert done.code == 0, done.err
    return found


def paid(world: World) -> int:
    """Return how many nodes the service has a machine for, or looks for one."""
    if isinstance(world, AwsCloud):
        return sum(bool({":", "_"} & {*job["id"], *job["name"]}) for job in world.alive())
    if isinstance(world, AzureCloud | KubernetesCloud):
        return len(world.alive())
    if isinstance(world, SlurmCloud):
        assert world.cluster is not None
        line = [
            "squeue",
            "--noheader",
            "--array",
            "--states=all",
            "-O",
            "StateCompact:|,Reason:|,WorkDir:|",
        ]
        rows = [text.split("|") for text in world.cluster.run(*line).splitlines()]
        own = [row for row in rows if row[2] == str(world.workspace.resolve())]
        return sum(
            row[0] in ("R", "CF", "CG") or (row[0] == "PD" and "held" not in row[1].lower())
            for row in own
        )
    return 1


def beside_truth(world: World, name: str) -> Path:
    """Give a file that jobs see, which may be in a folder of their own."""
    return (world.folder / "truth").resolve().with_name(name)


def lost(world: World) -> Iterator[str]:
    """Give the steps of the first node that were done again, or left out."""
    last = 0
    for line in beside_truth(world, "truth.steps").read_text().splitlines():
        rank, what, _, step = line.split()
        if rank != "0":
            continue
        if what == "begins" and int(step) != last:
            yield f"goes on with step {step} after step {last}"
        last = int(step)


def end(world: World) -> Iterator[str]:
    beside_truth(world, "truth.go").touch()
    await_that(lambda: world.runs()[0]["state"] not in ("running", "waiting"), "the end")
    yield from lost(world)


def shrink(world: World, run: str, verb: Sequence[str], how: How) -> Iterator[str]:
    """Have one node leave, or wait no more, by *verb*, and give what is wrong then."""
    name, *nodes = verb
    yield from change(world, [name, run, *nodes], how)
    if (found := size(world, run)) != (1, 1):
        yield f"after {name}, {found} are asked for and present"
    if (many := paid(world)) != 1:
        yield f"after {name}, {many} nodes are paid"


def give_back(world: World, run: str, how: Hows) -> Iterator[str]:
    yield from shrink(world, run, how.verb, how.down)
    world.await_truth(3)
    again = adopt(world, run) if how.elsewhere else None
    yield from change(world, ["resize", run, "2"], how.up, again)
    await_that(lambda: size(world, run) == (2, 2), "both nodes")
    world.await_truth(5)
    if isinstance(world, AwsCloud):
        names = Counter(job["name"] for job in world.jobs() if ":" not in job["id"])
        yield from (f"{name} was submitted twice" for name, count in names.items() if count > 1)
    yield from end(world)


def trace(world: World) -> tuple[Ended, Ended]:
    """Give how the commands end that have one node less, and one more, with nothing in their way."""
    run = start(world)
    first = len(world.log)
    assert list(give_back(world, run, Hows({}, {}))) == []
    return world.log[first], world.log[first + 3]


def cell(
    new: Callable[[Driver], AbstractContextManager[World]], driver: Driver, how: Hows
) -> list[str]:
    with new(driver) as world:
        run = start(world)
        wrong = list(give_back(world, run, how))
        if isinstance(world, Cloud):
            found = [*wrong, *clouds.ended(world, "succeeded")]
            return [what for what in found if not excused(what, FAULT)]
        return [*wrong, *always(world)]


def hows(found: Traced, fault: str) -> list[How]:
    """Give the kills to try, and the faults of requests that change something."""
    kills: list[How] = [{"at": at} for at in spaced(list(asked_first(found.places)))]
    strikes = [at for at, label in found.strikes().items() if changes(label)]
    assert strikes
    return [*kills, *({"wire": {"at": at, "fault": fault}} for at in strikes)]


def elsewhere(found: Traced) -> list[How]:
    """Give the kills after requests that change something: another machine knows nothing of what the first wanted."""
    return [{"at": at} for at, s in found.places.items() if s.startswith("sent ") and changes(s)]


def combine(downs: Sequence[How], ups: Sequence[How], moved: Sequence[How] = ()) -> list[Hows]:
    """Give a cell for each way to disturb a command, with all verbs on the way down; *moved* goes on elsewhere."""
    every = [*((how, False) for how in ups), *((how, True) for how in moved)]
    return [
        Hows(downs[n % len(downs)], *every[n % len(every)], DOWN[n % len(DOWN)])
        for n in range(max(len(downs), len(every)))
    ]


def wrong_with(pool: list[Driver], new: New, fault: str) -> Mapping[str, list[str]]:
    shape = ELASTIC._replace(settings={"grace": PATIENT} if fault == OF_SLURM else {})

    def world(driver: Driver) -> AbstractContextManager[Cloud]:
        return new(driver, COUNTS, 0.0, shape)

    with world(pool[0]) as first:
        down, up = (located(one.steps) for one in trace(first))
    cells = combine(hows(down, fault), hows(up, fault), elsewhere(up))
    wrong = spread(pool, lambda driver, n: cell(world, driver, cells[n]), range(len(cells)))
    return {str(cells[n]): found for n, found in wrong.items()}


def test_on_azure_batch_it_is_as_if_nothing_had_happened(
    azure_pool: list[Driver], account: New
) -> None:
    assert wrong_with(azure_pool, account, FAULT) == {}


def test_on_aws_batch_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], region: New
) -> None:
    assert wrong_with(wide_pool, region, FAULT) == {}


def test_on_kubernetes_it_is_as_if_nothing_had_happened(
    kubernetes_pool: list[Driver], cluster: New
) -> None:
    assert wrong_with(kubernetes_pool, cluster, FAULT) == {}


def test_on_slurm_it_is_as_if_nothing_had_happened(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    need(*PROGRAMS)
    machine = Machine(cpus=64, memory_mb=None)
    with (
        Cluster(tmp_path_factory.mktemp("c"), 2, machine, more={"KillWait": 1}) as cluster,
        drivers(6, "slurm") as pool,
    ):
        assert wrong_with(pool, slurm(cluster), OF_SLURM) == {}


def test_on_this_machine_it_is_as_if_nothing_had_happened(pool: list[Driver]) -> None:
    def world(driver: Driver) -> AbstractContextManager[World]:
        return new_world(driver, COUNTS, Counting)

    with world(pool[0]) as first:
        down, up = (len(one.labels) for one in trace(first))
    kills = [[{"at": at} for at in spaced(range(1, count + 1))] for count in (down, up)]
    cells = combine(*kills)

    wrong = spread(pool, lambda driver, n: cell(world, driver, cells[n]), range(len(cells)))

    assert {str(cells[n]): found for n, found in wrong.items()} == {}


# A node that waits for a machine is called off.


def called_off(cloud: Cloud, wait: Wait, verb: Sequence[str], how: How) -> list[str]:
    if isinstance(cloud, AzureCloud):
        cloud.account.control("PUT", "settings", {"dedicated_quota": 1})
    done = cloud.run("apply", "faults.yaml", "--detach")
    assert done.code == 0, done.err
    run = done.out.strip()
    wait(cloud, run)
    wrong = [*shrink(cloud, run, verb, how), *end(cloud)]
    return [
        what for what in [*wrong, *clouds.ended(cloud, "succeeded")] if not excused(what, FAULT)
    ]


@pytest.mark.parametrize(
    ("where", "pool", "wait"),
    [("region", "wide_pool", taken_on_aws), ("account", "azure_pool", none_on_azure)],
    ids=["aws", "azure"],
)
def test_a_node_that_waits_for_a_machine_waits_no_more(
    request: pytest.FixtureRequest, where: str, pool: str, wait: Wait
) -> None:
    new: New = request.getfixturevalue(where)
    workers: list[Driver] = request.getfixturevalue(pool)

    def world(driver: Driver) -> AbstractContextManager[Cloud]:
        return new(driver, COUNTS, 0.0, ELASTIC)

    with world(workers[0]) as cloud:
        assert called_off(cloud, wait, DOWN[0], {}) == []
        each = hows(located(cloud.log[1].steps), FAULT)

    def cell(driver: Driver, number: int) -> list[str]:
        with world(driver) as cloud:
            return called_off(cloud, wait, DOWN[number % 2], each[number])

    wrong = spread(workers, cell, range(len(each)))

    assert {str(each[n]): what for n, what in wrong.items()} == {}
