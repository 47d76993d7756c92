"""Empty accounts in which a setup is killed, and the cells of its matrix."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from azure.storage.blob import ContainerClient

from runspec_emulators.aws.region import Objects
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.azure_services.identity import Identity
from tests.faults import chosen
from tests.faults.world import KILLED, MEMORY, UNKNOWN, Driver, Ended, World, is_temporary
from tests.support.aws.empty_account import environment, list_things, reset
from tests.support.profiles import own_profile

PROFILE = "runspec-profile.yaml"
GONE = "is on record on this machine"  # what is said of a setup that the killed command has undone
REFUSED = {"expired": (0, 5)}  # exit codes of a request that went wrong; of all others:
UNSURE = (0, UNKNOWN, 69)


@dataclass
class SetupWorld(World):
    """A world without a profile, whose login reaches an empty account."""

    provider: ClassVar[str]
    sdk: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        own_profile(self.folder / ".config").unlink()
        self.open()

    def open(self) -> None:
        """Start an account, or empty the one there is."""
        raise NotImplementedError

    def words(self) -> list[str]:
        """Return the options of a setup."""
        raise NotImplementedError

    def things(self) -> list[str]:
        """Return what there is in the account, in words that are the same in every world."""
        raise NotImplementedError

    def start(self, *words: str, **how: Any) -> tuple[int, int]:
        how.setdefault("wire", {"at": None, "fault": None})
        return super().start(*words, sdk=self.sdk, **how)

    def set_up(self, **how: Any) -> Ended:
        return self.again("setup", self.provider, "--yes", *self.words(), **how)

    def undo(self, **how: Any) -> Ended:
        return self.again("setup", self.provider, "--undo", "--yes", **how)

    def profile(self) -> list[str] | None:
        """Return the lines of the profile without what differs from world to world; None if there is none."""
        path = self.folder / PROFILE
        lines = path.read_text().splitlines() if path.exists() else None
        return lines and [line for line in lines if "127.0.0.1" not in line]

    def leftovers(self) -> Iterator[str]:
        """Yield files that killed commands have left."""
        for folder in (self.home, self.folder):
            names = (path.name for path in folder.rglob("*") if is_temporary(path.name))
            yield from (f"left over: {name}" for name in names)
        for path in (self.folder / "home.tmp").iterdir():
            yield f"{path.name}: {' / '.join(path.read_text().splitlines()[-4:])}"


New = Callable[[Driver], AbstractContextManager[SetupWorld]]


@contextmanager
def new_setup(kind: Callable[[Driver, Path], SetupWorld], driver: Driver) -> Iterator[SetupWorld]:
    world = kind(driver, Path(tempfile.mkdtemp(prefix="runspec-faults-", dir=MEMORY)))
    try:
        yield world
    finally:
        world.close()


@dataclass
class AwsSetup(SetupWorld):
    """A world with the only account of a server, so that there is one at a time."""

    account: Objects | None = None

    provider: ClassVar[str] = "aws-batch"
    sdk: ClassVar[str] = "aws_setup"

    def open(self) -> None:
        assert self.account is not None
        reset(self.account)

    def words(self) -> list[str]:
        return []

    def environment(self) -> dict[str, str]:
        assert self.account is not None
        return {**super().environment(), **environment(self.account)}

    def things(self) -> list[str]:
        assert self.account is not None
        return list_things(self.account)

    def profile(self) -> list[str] | None:
        lines = super().profile()
        return lines and lines[:-2]  # the last two name the security group


@dataclass
class AzureSetup(SetupWorld):
    """A world with a subscription of its own; containers are those of one Blob service for all."""

    blobs: Blobs | None = None

    provider: ClassVar[str] = "azure-batch"
    sdk: ClassVar[str] = "azure_setup"

    @property
    def container(self) -> str:
        """Names of containers have no capitals and no '_', as the folder's may have."""
        return f"setup-{self.folder.name.encode().hex()[-32:]}"

    def open(self) -> None:
        assert self.blobs is not None
        self.identity = Identity()
        self.azure = AzureBatch(
            self.folder / "account",
            identity=self.identity,
            empty=True,
            storage_key=self.blobs.key,
            make_container=lambda name: self._opened(name).create_container(),
            delete_container=lambda name: self._opened(name).delete_container(),
        )

    def _opened(self, name: str) -> ContainerClient:
        assert self.blobs is not None
        key = {"account_name": self.blobs.account, "account_key": self.blobs.key}
        return ContainerClient(self.blobs.url, name, key)

    def words(self) -> list[str]:
        assert self.blobs is not None
        names = ("resource_group", "account", "storage_account")
        told = dict.fromkeys(names, "rehearsal") | {"location": "westeurope"}
        told |= {"container": self.container, "arm_url": self.azure.url, "blob_url": self.blobs.url}
        return [word for name, value in told.items() for word in ("--set", f"{name}={value}")]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.identity.env}

    def things(self) -> list[str]:
        with self.azure.world.lock:
            rows = [json.dumps(one, sort_keys=True) for one in self.azure.world.resources.values()]
        marks = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|azure-batch-[0-9a-z]{6}"
        return sorted(re.sub(rf"{marks}|{self.container}|127[0-9.:]+", "*", row) for row in rows)

    def profile(self) -> list[str] | None:
        lines = super().profile()
        return lines and [line.replace(self.container, "*") for line in lines]

    def close(self) -> None:
        if any(key.endswith(f"/{self.container}") for key in self.azure.world.resources):
            self._opened(self.container).delete_container()
        self.azure.close()
        self.identity.close()
        super().close()


# Where a command can be killed, and which of its requests can go wrong


def places(ended: Ended) -> dict[int, str]:
    """Return the boundaries before which something has changed, on the disk or at the service.

    A process that is killed at any other one leaves what it leaves at the boundary before.
    """
    assert ended.code == 0, ended.err
    steps = [step for step in ended.steps if step["n"] is not None]
    before = ["", *(step["label"] for step in steps)]
    return {
        step["n"]: step["label"]
        for step, last in zip(steps, before, strict=False)
        if not _only_looks(last) or step["what"] in ("half", "end")
    }


def _only_looks(label: str) -> bool:
    """Say whether nothing has changed after a step: what a killed process wrote stays, synced or not."""
    what = label.partition(" ")[0]
    return what in ("send", "fsync") or (what == "sent" and not chosen.changes(label))


def requests(ended: Ended) -> dict[int, str]:
    """Return the requests of a command that change something, by their number."""
    sent = [step["label"] for step in ended.steps if step["what"] == "send"]
    found = [label.partition(" ")[2] for label in sent]
    return {at: name for at, name in enumerate(found, 1) if chosen.changes(name)}


# The cells


def trace(new: New, driver: Driver) -> tuple[Ended, Ended, list[str], list[str] | None]:
    """Return how a setup and an undo end with nothing in their way, and what the setup made and wrote."""
    with new(driver) as world:
        made = world.set_up()
        assert made.code == 0, made.err
        there, profile = world.things(), world.profile()
        undone = world.undo()
        assert (undone.code, world.things()) == (0, []), undone.err
    return made, undone, there, profile


def disturbed(new: New, driver: Driver, how: Mapping[str, Any], wanted: Any) -> list[str]:
    """Give what is wrong after a setup that was disturbed as *how* says, and repeated, and after its undoing."""
    with new(driver) as world:
        world.run("setup", world.provider, "--yes", *world.words(), **how)
        wrong = list(_ended(world.log[-1], how))
        repeated = world.set_up()
        if repeated.code != 0:
            wrong.append(f"the repeated setup ends with {repeated.code}: {repeated.err[-300:]}")
        if (there := world.things()) != wanted[0]:
            wrong.append(f"differs: {sorted({*there} ^ {*wanted[0]})}")
        if (profile := world.profile()) != wanted[1]:
            wrong.append(f"the profile is {profile}")
        wrong += world.leftovers()
        undone = world.undo()
        if undone.code != 0:
            wrong.append(f"undo ends with {undone.code}: {undone.err[-300:]}")
        return [*wrong, *_left(world)]


def disturbed_undo(new: New, driver: Driver, how: Mapping[str, Any]) -> list[str]:
    """Give what is wrong after an undo that was disturbed as *how* says, and repeated."""
    with new(driver) as world:
        made = world.set_up()
        assert made.code == 0, made.err
        world.run("setup", world.provider, "--undo", "--yes", **how)
        wrong = list(_ended(world.log[-1], how))
        repeated = world.undo()
        # Whether the last event was written before the kill decides what the second command says.
        if repeated.code != 0 and GONE not in repeated.err:
            wrong.append(f"the repeated undo ends with {repeated.code}: {repeated.err[-300:]}")
        return [*wrong, *_left(world), *world.leftovers()]


def _ended(ended: Ended, how: Mapping[str, Any]) -> Iterator[str]:
    codes = (KILLED,) if "at" in how else REFUSED.get(how["wire"]["fault"], UNSURE)
    if ended.code not in codes:
        yield f"exit code {ended.code}: {ended.err[-300:]}"


def _left(world: SetupWorld) -> Iterator[str]:
    yield from (f"left: {thing}" for thing in world.things())
    if (world.folder / PROFILE).exists():
        yield "the profile is left"
