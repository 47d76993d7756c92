"""A controller that is stopped while a job is submitted: sbatch gives up, and the job may be made nevertheless.

Measured on 22.05: a controller that was frozen takes what was sent meanwhile when it goes on, so each try of sbatch
that has "timed out" is a job in the end. One of them runs the program, however many there are; the others leave.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from runspec_emulators.slurm import Cluster, Shape as Machine
from tests.faults import chosen
from tests.faults.cloud import Cloud, New, applied
from tests.faults.conftest import drivers
from tests.faults.shapes import SHAPES, SINGLE, Shape
from tests.faults.slurm import slurm
from tests.faults.world import QUICK, UNKNOWN, Driver, await_that, state_of
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
ROUNDS = 10 if chosen.ALL else 4
GIVES_UP_S = 2  # MessageTimeout, by which sbatch waits for an answer; 10 where nothing is said


@pytest.fixture(scope="module")
def pool() -> Iterator[list[Driver]]:
    with drivers(ROUNDS, "slurm") as found:
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need(*PROGRAMS)
    more = {"MessageTimeout": GIVES_UP_S, "KillWait": 1}
    machine = Machine(cpus=64, memory_mb=None)
    with Cluster(tmp_path_factory.mktemp("c"), 2, machine, more=more) as found:
        yield found


@pytest.fixture
def here(cluster: Cluster) -> New:
    return slurm(cluster)


def frozen(cluster: Cluster, let: Callable[[], None], ended: Callable[[], None]) -> None:
    """Sbatch gives up, and whoever called it too."""
    with cluster.frozen():
        let()
        ended()


def thawed(cluster: Cluster, let: Callable[[], None], ended: Callable[[], None]) -> None:
    """The controller goes on while sbatch waits."""
    with cluster.frozen():
        let()
        time.sleep(GIVES_UP_S / 2)
    ended()


def killed(cluster: Cluster, let: Callable[[], None], ended: Callable[[], None]) -> None:
    """The controller is started again from what it has saved: what waited in it is gone."""
    with cluster.frozen():
        let()
        ended()
        cluster.stop_controller(signal.SIGKILL)
        cluster.start_controller()
    cluster.mend(cancel=False)


TRIED = {"job": SINGLE, "array": SHAPES["array"]}  # the second of them by RUNSPEC_FAULTS=all
WAYS = {"frozen": frozen, "frozen and thawed": thawed, "frozen, then killed": killed}


@contextmanager
def about_to_submit(
    worlds: Sequence[Cloud],
) -> Iterator[tuple[Callable[[], None], Callable[[], None], list[int]]]:
    """Have an `apply` of each world stand right before its sbatch.

    Give what lets all of them go on, what waits for their end, whatever with, and the list of their codes to come.
    """
    started = [
        world.start("apply", "faults.yaml", at="send POST sbatch", do="stop") for world in worlds
    ]
    pids = [world.driver.pids[number] for world, (number, _) in zip(worlds, started, strict=True)]
    for pid in pids:
        await_that(partial(stopped, pid), "a command line that is about to submit")

    def let() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def ended() -> None:
        for pid in pids:
            await_that(partial(over, pid), "a command line that ends")

    codes: list[int] = []
    yield let, ended, codes
    codes += [world.wait(one).code for world, one in zip(worlds, started, strict=True)]


def stopped(pid: int) -> bool:
    return state_of(pid) in ("T", None)


@pytest.mark.parametrize("shape", [s for n, s in TRIED.items() if n == "job" or chosen.ALL])
@pytest.mark.parametrize("way", WAYS)
def test_however_its_controller_stops_a_run_has_one_job(
    pool: list[Driver], cluster: Cluster, here: New, way: str, shape: Shape
) -> None:
    """Each of several, submitted at the same moment; and the same command again is all that it takes."""
    with ExitStack() as stack:
        worlds = [stack.enter_context(here(driver, QUICK, 0.0, shape)) for driver in pool]
        with about_to_submit(worlds) as (let, ended, codes):
            WAYS[way](cluster, let, ended)
        with ThreadPoolExecutor(len(worlds)) as threads:
            list(threads.map(lambda world: world.again("apply", "faults.yaml"), worlds))

        wrong = {n: found for n, world in enumerate(worlds) if (found := list(applied(world)))}

        assert set(codes) <= {0, UNKNOWN}
        assert way == "frozen and thawed" or codes == [UNKNOWN] * ROUNDS
        assert wrong == {}


def over(pid: int) -> bool:
    return state_of(pid) in ("Z", None)
