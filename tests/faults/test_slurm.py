"""One job on a real Slurm, and nothing left of it, wherever the lights go out or the way there breaks.

Killed before and after each command that goes to the cluster, and in the middle of it: at each simple command of its
shell, which dies with its caller. What can go wrong is tried over SSH, with an sshd, and by what stands in for a
command of Slurm's. What is tried, chosen.py says; all of it by RUNSPEC_FAULTS=all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from runspec_emulators.slurm import Cluster, Shape as Machine
from tests.faults import chosen, cloud
from tests.faults.cells import sample, spread
from tests.faults.cloud import LAST, MORE, New
from tests.faults.conftest import drivers
from tests.faults.shapes import SHAPES, SINGLE, SPLIT, Shape
from tests.faults.slurm import slurm
from tests.faults.struck import Case, Traced, counted, located
from tests.faults.wire_slurm import BY_SLURM, BY_SSH
from tests.faults.world import QUICK, Driver
from tests.support.requirements import need
from tests.support.slurm.login_node import login
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
AT_ONCE = 6
ARRAY, NODES = SHAPES["array"], SHAPES["multi-node"]
SUBMIT = "POST sbatch"
TRACES: dict[tuple[str, str], Sequence[Mapping[str, Any]]] = {}  # by verb and shape


@pytest.fixture(scope="module")
def pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE, "slurm") as found:
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One on which no job waits for another, and what is cancelled is soon gone."""
    need(*PROGRAMS)
    machine = Machine(cpus=64, memory_mb=None)
    more = {"KillWait": 1, "MaxArraySize": 10}
    with Cluster(tmp_path_factory.mktemp("c"), 2, machine, more=more) as found:
        yield found


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> New:
    return slurm(cluster)


@pytest.fixture(scope="module")
def far(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[New]:
    env = tuple(f"{name}={value}" for name, value in cluster.env.items())
    with login(tmp_path_factory.mktemp("login"), env) as node:
        yield slurm(cluster, node)


class Inside(NamedTuple):
    """A simple command of the shell of a request, by the request's number and its own."""

    at: int
    step: int


def trace(
    driver: Driver, new: New, verb: str, shape: Shape = SINGLE
) -> Sequence[Mapping[str, Any]]:
    """Give the steps of a verb with nothing in its way, and how many simple commands each request is made of."""
    key = (verb, shape.spec)
    if key not in TRACES:
        with new(driver, LAST[verb], 0.0, shape) as world:
            world.wire["counts"] = True
            TRACES[key] = cloud.trace(world, verb).steps
    return TRACES[key]


def places(driver: Driver, new: New, verb: str) -> Traced:
    """Give where a verb can be killed, and what it sends."""
    return located(trace(driver, new, verb))


def inside(driver: Driver, new: New, verb: str, shape: Shape = SINGLE) -> Mapping[Inside, str]:
    """Give every place inside of a request where a shell can die; the first is before all of it."""
    ends = [step for step in trace(driver, new, verb, shape) if step["what"] == "sent"]
    asked = chosen.asked_first(dict(enumerate(counted(step["label"] for step in ends), 1)))
    return {
        Inside(at, step): f"{label}, step {step}"
        for at, label in asked.items()
        for step in range(2, ends[at - 1].get("inside", 0) + 1)
    }


def some(places: Mapping[Inside, str], size: int) -> list[Inside]:
    """Choose of the places in requests that change something, and of those of sbatch twice as many."""
    if chosen.ALL:
        return list(places)
    changing = [place for place, label in places.items() if chosen.changes(label)]
    submits = [place for place in changing if SUBMIT in places[place]]
    few = [changing[n - 1] for n in sample(len(changing), size)]
    return list(dict.fromkeys([*few, *(submits[n - 1] for n in sample(len(submits), size))]))


def few(places: list[int], size: int) -> list[int]:
    return places if chosen.ALL else [places[n - 1] for n in sample(len(places), size)]


@pytest.mark.parametrize("verb", MORE)
def test_killed_at_its_commands_and_repeated_it_is_as_if_nothing_had_happened(
    pool: list[Driver], here: New, verb: str
) -> None:
    kills, case = places(pool[0], here, verb).kills(), Case(verb)
    submits = [at for at, label in kills.items() if SUBMIT in label]
    found = {*few(chosen.kills(kills, (chosen.SEND, chosen.SENT)), 3), *submits}

    wrong = spread(pool, lambda driver, at: case.killed(driver, here, at), sorted(found))

    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize("verb", MORE if chosen.ALL else ("apply", "destroy"))
def test_killed_with_its_shell_in_the_middle_of_a_command_it_is_as_if_nothing_had_happened(
    pool: list[Driver], here: New, verb: str
) -> None:
    found, case = inside(pool[0], here, verb), Case(verb)
    assert found

    wrong = spread(
        pool,
        lambda driver, at: case.broken(driver, here, f"dies at {at.step}", at.at),
        some(found, 2),
    )

    assert {found[at]: what for at, what in wrong.items()} == {}


def halves(driver: Driver, new: New, verb: str) -> Mapping[int, str]:
    """Give the middles of all that is written to a command: the shell goes on with what has come."""
    found, asked = {}, ""
    for step in trace(driver, new, verb):
        asked = step["label"] if step["what"] == "send" else asked
        if step["label"] == "half pipe" and step["n"] is not None:
            found[step["n"]] = f"half of {asked}"
    return found


@pytest.mark.parametrize("verb", ["apply", "cancel"] if chosen.ALL else ["apply"])
def test_killed_with_half_of_it_written_it_is_as_if_nothing_had_happened(
    pool: list[Driver], here: New, verb: str
) -> None:
    found, case = halves(pool[0], here, verb), Case(verb)
    assert any("sbatch" in label for label in found.values()) or verb != "apply"

    wrong = spread(pool, lambda driver, at: case.killed(driver, here, at), found)

    assert {found[at]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy"])
def test_a_connection_that_breaks_changes_nothing_in_the_end(
    pool: list[Driver], here: New, far: New, verb: str
) -> None:
    """At any command before it, after it, or in the middle of its answer; or it hangs, or greets."""
    strikes, case = places(pool[0], here, verb).strikes(), Case(verb)
    cells = chosen.strikes(strikes, BY_SSH)
    if not chosen.ALL:
        submits = [(at, fault) for at, s in strikes.items() if s == SUBMIT for fault in BY_SSH]
        cells = list(dict.fromkeys([*(cells[n - 1] for n in sample(len(cells), 3)), *submits]))

    wrong = spread(pool, lambda driver, cell: case.broken(driver, far, cell[1], cell[0]), cells)

    assert {(strikes[at], fault): what for (at, fault), what in wrong.items()} == {}


@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy"])
def test_a_command_of_slurm_that_goes_wrong_changes_nothing_in_the_end(
    pool: list[Driver], here: New, verb: str
) -> None:
    """Refused, timed out before and after it did what was asked for, killed; and a disk that is full."""
    strikes, case = places(pool[0], here, verb).strikes(), Case(verb)
    cells = [
        (at, fault)
        for at, label in chosen.asked_first(strikes).items()
        for fault, (command, _) in BY_SLURM.items()
        if command in label or (command == "cat" and label.startswith("PUT"))
    ]
    kept = cells if chosen.ALL else [cells[n - 1] for n in sample(len(cells), 4)]

    wrong = spread(pool, lambda driver, cell: case.broken(driver, here, cell[1], cell[0]), kept)

    assert {(strikes[at], fault): what for (at, fault), what in wrong.items()} == {}


@pytest.mark.parametrize("shape", [SINGLE, ARRAY, NODES] if chosen.ALL else [SINGLE])
def test_a_job_that_squeue_does_not_show_yet_is_not_submitted_again(
    pool: list[Driver], here: New, shape: Shape
) -> None:
    """Whoever submitted it is killed, and its shell too; a second job leaves, should there be one."""
    found = inside(pool[0], here, "apply", shape)
    submits = [place for place, label in found.items() if SUBMIT in label]
    chosen_ones = submits if chosen.ALL else submits[-6::4]
    case = Case("apply", shape, lag_s=2.0)

    wrong = spread(
        pool,
        lambda driver, at: case.broken(driver, here, f"dies at {at.step}", at.at),
        chosen_ones,
    )

    assert chosen_ones
    assert {found[at]: what for at, what in wrong.items()} == {}


@pytest.mark.matrix
@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy"] if chosen.ALL else ["apply"])
def test_of_a_sweep_of_two_arrays_each_is_submitted_once_wherever_its_client_is_killed(
    pool: list[Driver], here: New, verb: str
) -> None:
    """Before and after each request to submit one, or to end it; in the middle of it as well, if all is tried."""
    case, found = Case(verb, SPLIT), inside(pool[0], here, verb, SPLIT)
    kills = located(trace(pool[0], here, verb, SPLIT)).kills()
    submits = [at for at, label in kills.items() if SUBMIT in label]
    dies = [at for at, label in found.items() if SUBMIT in label]
    ends = [at for at, label in kills.items() if chosen.changes(label)]
    asked = ends if verb != "apply" else submits if chosen.ALL else submits[1:3]

    wrong = spread(pool, lambda driver, at: case.killed(driver, here, at), asked)
    broken = spread(
        pool,
        lambda driver, at: case.broken(driver, here, f"dies at {at.step}", at.at),
        dies if chosen.ALL else [],
    )

    assert len(submits) == 4 or verb != "apply"
    assert {kills[at]: what for at, what in wrong.items()} == {}
    assert {found[at]: what for at, what in broken.items()} == {}


def test_a_job_is_submitted_by_one_sbatch(pool: list[Driver], here: New) -> None:
    with here(pool[0], QUICK, 0.0, SINGLE) as world:
        assert MORE["apply"](world) == []

        assert world.submits() == 1


def test_every_piece_of_shell_has_a_name_here(pool: list[Driver], here: New) -> None:
    """What is counted is all there is: no command goes to the cluster that no test names."""
    seen = set()
    for verb in MORE:
        seen |= set(places(pool[0], here, verb).requests)

    assert SUBMIT in seen
    assert not [label for label in seen if "something" in label]
