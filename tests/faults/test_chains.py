"""Each job of a chain runs once, with all that the jobs before it have saved, wherever a command is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.slurm import Cluster, Shape as Machine
from tests.faults import chains, chosen
from tests.faults.cells import sample, spread
from tests.faults.cloud import AT_ONCE, New, new_cloud
from tests.faults.conftest import drivers
from tests.faults.shapes import SINGLE, Shape
from tests.faults.world import Driver, new_world
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

OF_SLURM = "POST sbatch"
OF_AWS = "POST /v1/submitjob"
OF_AZURE = "POST batch /jobs"
SPOT = SINGLE._replace(spec="cluster: {capacity: spot}")
FEW = 5  # boundaries of all verbs in the run that is not the matrix


def boundaries(driver: Driver, verb: str) -> list[str]:
    """Return the boundaries of *verb* as a run of it that is not killed passes them; threads may change their order."""
    with new_world(driver, chains.CELLS[verb][1], chains.LocalChain) as world:
        return [step["label"] for step in chains.trace(world, verb) if step["n"] is not None]


def killed(driver: Driver, verb: str, at: int) -> list[str]:
    cell, last = chains.CELLS[verb]
    with new_world(driver, last, chains.LocalChain) as world:
        return cell(world, at=at)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("verb", chains.CELLS)
def test_a_chain_killed_at_any_boundary_and_repeated_is_as_if_nothing_had_happened(
    pool: list[Driver], verb: str
) -> None:
    labels = boundaries(pool[0], verb)
    places = chosen.spaced(range(1, len(labels) + 1))

    wrong = spread(pool, lambda driver, at: killed(driver, verb, at), places)

    assert {labels[at - 1]: what for at, what in wrong.items()} == {}


@pytest.mark.slow
def test_a_chain_killed_at_some_boundaries_and_repeated_is_as_if_nothing_had_happened(
    pool: list[Driver],
) -> None:
    labels = boundaries(pool[0], "apply")
    verbs = ("apply", "apply, then destroy", "apply, then cancel")
    places = [(verbs[i % 3], at) for i, at in enumerate(sample(len(labels), FEW))]

    wrong = spread(pool, lambda driver, place: killed(driver, *place), places)

    assert {(verb, labels[at - 1]): what for (verb, at), what in wrong.items()} == {}


# At services: killed before and after requests that change something; a reply of each request to submit is lost.


@pytest.fixture(scope="module")
def slurm_pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE, "slurm") as pool:
        yield pool


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need(*PROGRAMS)
    machine = Machine(cpus=64, memory_mb=None)
    with Cluster(tmp_path_factory.mktemp("c"), 2, machine, more={"KillWait": 1}) as one:
        yield one


@pytest.fixture
def on_slurm(cluster: Cluster) -> New:
    return partial(new_cloud, chains.SlurmChain, cluster=cluster)


@pytest.fixture
def on_aws(region: New) -> New:
    return partial(new_cloud, chains.AwsChain, **region.keywords)  # type: ignore[attr-defined]  # a partial


@pytest.fixture
def on_azure(blobs: Blobs) -> New:
    return partial(new_cloud, chains.AzureChain, blobs=blobs)


def killed_everywhere(pool: list[Driver], new: New, verb: str) -> dict[str, list[str]]:
    kills = chains.located_in(pool[0], new, verb).kills()
    places = chosen.kills(kills)
    wrong = spread(pool, lambda driver, at: chains.killed(driver, new, verb, at), places)
    return {kills[at]: what for at, what in wrong.items()}


def lost_replies(pool: list[Driver], new: New, request: str, fault: str) -> dict[str, list[str]]:
    """Lose the reply of each request to submit a job of the chain."""
    requests = enumerate(chains.located_in(pool[0], new, "apply").requests, 1)
    submits = {at: label for at, label in requests if label.partition(" (")[0] == request}
    assert submits
    wrong = spread(pool, lambda driver, at: chains.broken(driver, new, "apply", fault, at), submits)
    return {submits[at]: what for at, what in wrong.items()}


VERBS = [
    pytest.param(verb, marks=() if verb == "apply" else pytest.mark.matrix) for verb in chains.CELLS
]


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_chain_on_slurm_killed_at_its_requests_is_as_if_nothing_had_happened(
    slurm_pool: list[Driver], on_slurm: New, verb: str
) -> None:
    assert killed_everywhere(slurm_pool, on_slurm, verb) == {}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_chain_on_aws_batch_killed_at_its_requests_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], on_aws: New, verb: str
) -> None:
    assert killed_everywhere(wide_pool, on_aws, verb) == {}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_chain_on_azure_batch_killed_at_its_requests_is_as_if_nothing_had_happened(
    azure_pool: list[Driver], on_azure: New, verb: str
) -> None:
    assert killed_everywhere(azure_pool, on_azure, verb) == {}


@pytest.mark.matrix
@pytest.mark.slow
def test_a_reply_of_sbatch_that_is_lost_starts_no_job_of_a_chain_twice(
    slurm_pool: list[Driver], on_slurm: New
) -> None:
    assert lost_replies(slurm_pool, on_slurm, OF_SLURM, "sbatch is killed after") == {}


@pytest.mark.matrix
@pytest.mark.slow
def test_a_reply_of_submit_job_that_is_lost_starts_no_job_of_a_chain_twice(
    wide_pool: list[Driver], on_aws: New
) -> None:
    assert lost_replies(wide_pool, on_aws, OF_AWS, "reset after") == {}


@pytest.mark.matrix
@pytest.mark.slow
def test_a_reply_of_job_add_that_is_lost_starts_no_job_of_a_chain_twice(
    azure_pool: list[Driver], on_azure: New
) -> None:
    assert lost_replies(azure_pool, on_azure, OF_AZURE, "reset after") == {}


# Between two stores: `a` and `b` run on this machine, and what they have saved is copied for `c` and `d`.


def killed_while_copying(pool: list[Driver], new: New) -> dict[str, list[str]]:
    places = chains.while_copying(pool[0], new)
    assert any("PUT" in label.split() for label in places.values())
    chosen_places = chosen.spaced(list(places))
    wrong = spread(pool, lambda driver, at: chains.killed(driver, new, "apply", at), chosen_places)
    return {places[at]: what for at, what in wrong.items()}


@pytest.mark.slow
def test_a_copy_to_slurm_that_is_killed_is_continued_and_no_job_reads_a_part_of_it(
    slurm_pool: list[Driver], on_slurm: New
) -> None:
    new = chains.with_two_stores(on_slurm)

    assert killed_while_copying(slurm_pool, new) == {}


@pytest.mark.matrix
@pytest.mark.slow
def test_a_copy_to_s3_that_is_killed_is_continued_and_no_job_reads_a_part_of_it(
    wide_pool: list[Driver], on_aws: New
) -> None:
    new = chains.with_two_stores(on_aws)

    assert killed_while_copying(wide_pool, new) == {}


@pytest.mark.matrix
@pytest.mark.slow
def test_a_copy_to_azure_blob_that_is_killed_is_continued_and_no_job_reads_a_part_of_it(
    azure_pool: list[Driver], on_azure: New
) -> None:
    new = chains.with_two_stores(on_azure)

    assert killed_while_copying(azure_pool, new) == {}


# A parent that does not succeed at once.

ENDS: dict[str, tuple[Callable[[chains.Chain], None], int]] = {
    "loses its machine": (chains.loses_machine, 0),
    "is cancelled": (chains.is_cancelled, 1),
    "reaches its timeout": (chains.is_limited, 1),
}


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_job_does_not_begin_before_the_one_that_it_needs_has_succeeded(
    pool: list[Driver], end: str
) -> None:
    """On this machine nothing is left to try a job again, so `apply` says that it failed."""
    ends, code = ENDS[end]
    with new_world(pool[0], chains.ONCE, chains.LocalChain) as world:
        assert isinstance(world, chains.LocalChain)
        assert chains.interrupted(world, ends, code or 1) == []


def interrupted(driver: Driver, new: New, end: str, shape: Shape = SPOT) -> list[str]:
    with new(driver, chains.ONCE, 0.0, shape) as world:
        assert isinstance(world, chains.SlurmChain | chains.AwsChain | chains.AzureChain)
        return chains.interrupted(world, *ENDS[end])


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_job_on_slurm_does_not_begin_before_the_one_that_it_needs_has_succeeded(
    slurm_pool: list[Driver], on_slurm: New, end: str
) -> None:
    assert interrupted(slurm_pool[0], on_slurm, end, SINGLE) == []


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_job_on_aws_batch_does_not_begin_before_the_one_that_it_needs_has_succeeded(
    wide_pool: list[Driver], on_aws: New, end: str
) -> None:
    assert interrupted(wide_pool[0], on_aws, end) == []


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_job_on_azure_batch_does_not_begin_before_the_one_that_it_needs_has_succeeded(
    azure_pool: list[Driver], on_azure: New, end: str
) -> None:
    assert interrupted(azure_pool[0], on_azure, end) == []
