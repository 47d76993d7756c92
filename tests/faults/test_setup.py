"""A setup makes each thing once, and its undoing leaves nothing, wherever they are killed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Objects
from tests.faults import chosen
from tests.faults.world import KILLED, MEMORY, Driver, Ended, World
from tests.support.aws.empty_account import empty_account, environment, list_things, reset
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow

SETUP = ("setup", "aws-batch", "--yes")
UNDO = ("setup", "aws-batch", "--undo", "--yes")
WIRE = {"at": None, "fault": None}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    with empty_account(tmp_path_factory.mktemp("account")) as found:
        yield found


class SetupWorld(World):
    """A world without a profile, whose login reaches an empty account."""

    def reach(self, account: Objects) -> SetupWorld:
        self.account = account
        own_profile(self.folder / ".config").unlink()
        reset(account)
        return self

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **environment(self.account)}

    def set_up(self, *words: str, at: int | None = None) -> Ended:
        return self.run(*words, sdk="aws", wire=WIRE, **({} if at is None else {"at": at}))


@contextmanager
def empty_world(driver: Driver, account: Objects) -> Iterator[SetupWorld]:
    folder = Path(tempfile.mkdtemp(prefix="runspec-faults-", dir=MEMORY))
    world = SetupWorld(driver, folder).reach(account)
    try:
        yield world
    finally:
        world.close()


def list_places(ended: Ended) -> dict[int, str]:
    """Return where a command can be killed; the many requests that only look stand for each other."""
    assert ended.code == 0, ended.err
    steps = [step for step in ended.steps if step["n"] is not None]
    first = {step["label"]: step["n"] for step in reversed(steps)}
    last = {step["label"]: step["n"] for step in steps}
    kept = {*first.values(), *last.values()}
    changing = [s["n"] for s in steps if "journal" in s["label"] or s["what"] in ("send", "sent")]
    return {s["n"]: s["label"] for s in steps if s["n"] in kept | {*changing}}


def test_a_killed_and_repeated_setup_makes_each_thing_once(
    wide_pool: list[Driver], account: Objects
) -> None:
    with empty_world(wide_pool[0], account) as world:
        places = list_places(world.set_up(*SETUP))
        made = list_things(account)
        profile = (world.folder / "runspec-profile.yaml").read_text().splitlines()

    wrong = {}
    for at in chosen.spaced(list(places)):
        with empty_world(wide_pool[0], account) as world:
            killed = world.set_up(*SETUP, at=at)
            repeated = world.set_up(*SETUP)
            there = list_things(account)
            written = (world.folder / "runspec-profile.yaml").read_text().splitlines()
            undone = world.set_up(*UNDO)
            left = list_things(account)
            codes = (killed.code, repeated.code, undone.code)
            if codes != (KILLED, 0, 0) or there != made or left or written[:-2] != profile[:-2]:
                wrong[places[at]] = (codes, {*there} ^ {*made}, left, repeated.err)
            assert not (world.folder / "runspec-profile.yaml").exists()

    assert wrong == {}


def test_a_killed_and_repeated_undo_leaves_nothing(
    wide_pool: list[Driver], account: Objects
) -> None:
    with empty_world(wide_pool[0], account) as world:
        world.set_up(*SETUP)
        places = list_places(world.set_up(*UNDO))

    wrong = {}
    for at in chosen.spaced(list(places), 0.2):
        with empty_world(wide_pool[0], account) as world:
            world.set_up(*SETUP)
            killed = world.set_up(*UNDO, at=at)
            repeated = world.set_up(*UNDO)
            left = list_things(account)
            # Whether the last event was written before the kill decides what the second command says.
            fine = repeated.code == 0 or "no setup of aws-batch is on record" in repeated.err
            if killed.code != KILLED or not fine or left:
                wrong[places[at]] = (killed.code, repeated.code, left, repeated.err)

    assert wrong == {}
