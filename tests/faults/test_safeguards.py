"""Every safeguard is needed: with it nothing goes wrong, without it a test is red."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults import order
from tests.faults.cells import given_up, late
from tests.faults.drive import SAFEGUARDS
from tests.faults.world import (
    KILLED,
    LONG,
    Driver,
    applied,
    ended_as,
    new_world,
    stopped_at,
)

LEFT_S = 5.0  # after which a process counts as left, where that is expected
Scenario = Callable[[Driver, tuple[str, ...]], list[str]]


def killed_after_start(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """The answer of `start` is lost, and apply is repeated."""
    with new_world(driver) as world:
        world.run("apply", "faults.yaml", at="called call start", without=without)
        world.again("apply", "faults.yaml", without=without)
        return list(applied(world))


def given_up_after_start(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """The answer of `start` is lost, and the run is destroyed."""
    return given_up(driver, "called call start", without=without)


def killed_while_starting(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """An apply dies while its supervisor starts, slowly; the next apply starts another."""
    return late(driver, "await", "apply", {"without": "claim"} if without else {})


def two_applies(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """A second apply comes while the first is about to put its record down."""
    with new_world(driver) as world:
        about = "rename home/runs/.new-faults home/runs/RUN"
        first = world.start("apply", "faults.yaml", at=about, do="stop", without=without)
        with stopped_at(world, first):
            second = world.start("apply", "faults.yaml", without=without)
            world.let(second)
        world.wait(first)
        world.wait(second)
        return list(applied(world))


def destroyed_while_applied(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """A destroy comes while apply is about to start the job."""
    with new_world(driver, LONG) as world:
        if without:
            world.patience_s = LEFT_S
        how = {"at": "call call start", "do": "stop", "without": without}
        first = world.start("apply", "faults.yaml", "--detach", **how)
        with stopped_at(world, first):
            (row,) = world.runs()
            second = world.start("destroy", row["run"], without=without)
            world.let(second)
        world.wait(first)
        world.wait(second)
        return list(ended_as(world, row["run"], "destroyed"))


def killed_while_recording(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """An apply dies in the middle of writing its plan down."""
    fresh = "RUN/plan.json" if without else ".new-faults/.plan.json.new"
    return killed_at(driver, without, f"half home/runs/{fresh}")


def killed_while_copying(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """An apply dies in the middle of copying a folder."""
    fresh = "DIGEST" if without else ".new-DIGEST"
    return killed_at(driver, without, f"half home/local/blobs/{fresh}/two")


def killed_at(driver: Driver, without: tuple[str, ...], label: str) -> list[str]:
    with new_world(driver) as world:
        killed = world.run("apply", "faults.yaml", at=label, without=without)
        assert killed.code == KILLED, f"it has no '{label}'"
        world.again("apply", "faults.yaml", without=without)
        return list(applied(world))


def power_lost(driver: Driver, without: tuple[str, ...]) -> list[str]:
    """The order of writes, fsyncs, renames and calls, of the command line and of the supervisor."""
    with new_world(driver) as world:
        trace = world.folder / "traces" / "supervisor"
        ended = world.run("apply", "faults.yaml", without=without, supervisor={"trace": str(trace)})
        world.await_quiet()
        steps = [
            ended.steps,
            world.run("destroy", "faults", without=without).steps,
            world.steps(trace),
        ]
        assert world.log[-1].code == 0
        return [wrong for one in steps for wrong in order.broken(one)]


SCENARIOS: dict[str, tuple[tuple[str, ...], Scenario]] = {
    "the line that says what is begun": (("intent",), given_up_after_start),
    "looking for what was begun": (("find",), killed_after_start),
    "the claim of the supervisor": (("claim",), killed_while_starting),
    "the lock of a name": (("locks",), two_applies),
    "the lock of a run": (("run lock",), destroyed_while_applied),
    "renaming what is whole": (("rename",), killed_while_recording),
    "naming a folder when it is whole": (("whole folders",), killed_while_copying),
    "fsync": (("fsync",), power_lost),
}


def test_each_safeguard_that_can_be_taken_away_has_its_scenario() -> None:
    assert sorted(one for without, _ in SCENARIOS.values() for one in without) == sorted(SAFEGUARDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_with_every_safeguard_nothing_goes_wrong(driver: Driver, name: str) -> None:
    _, scenario = SCENARIOS[name]

    assert scenario(driver, ()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_without_a_safeguard_something_goes_wrong(driver: Driver, name: str) -> None:
    without, scenario = SCENARIOS[name]

    assert scenario(driver, without) != []


# The rule of order, by itself


def step(what: str, *paths: str, **more: object) -> order.Step:
    return {"what": what, "paths": paths, "label": what, "fresh": True, **more}


WRITTEN = (
    step("open", "/d/.a.new"),
    step("write", "/d/.a.new"),
    step("fsync", "/d/.a.new"),
    step("rename", "/d/.a.new", "/d/a"),
    step("fsync", "/d"),
    step("call", "start"),
)


def test_a_file_that_is_written_synced_renamed_and_its_folder_synced_is_in_order() -> None:
    assert order.broken(WRITTEN) == []


@pytest.mark.parametrize("left_out", [2, 4])
def test_each_fsync_is_missed_where_it_is_left_out(left_out: int) -> None:
    steps = [one for number, one in enumerate(WRITTEN) if number != left_out]

    assert len(order.broken(steps)) == 1


def test_a_line_of_the_journal_is_synced_before_the_call_it_announces() -> None:
    announced = [step("write", "/d/journal.jsonl"), step("call", "start")]

    assert len(order.broken(announced)) == 1
    assert order.broken([announced[0], step("fsync", "/d/journal.jsonl"), announced[1]]) == []


def test_a_folder_is_renamed_when_the_names_in_it_are_synced() -> None:
    made = [
        step("mkdir", "/d/.new"),
        step("mkdir", "/d/.new/sub"),
        step("rename", "/d/.new", "/d/new"),
    ]

    assert len(order.broken(made)) == 1
