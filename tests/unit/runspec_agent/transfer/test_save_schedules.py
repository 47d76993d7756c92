"""Random schedules of machines that save into one place: what counts is whole, and there, at every moment.

A failure names its seed: `plain(SEED)` or `elastic(SEED)` does the very same again, inside `repeatable(SEED)`.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.elastic import fence
from runspec_agent.elastic.checkpoint import CheckpointManifest, FencedSaver
from runspec_agent.elastic.member import Member
from runspec_agent.store import parallel
from runspec_agent.store.manifest import EMPTY, MANIFEST, OBJECTS, Entry, Listed, Manifest, parsed
from runspec_agent.transfer.output_saver import Output, Saver
from tests.faults.chosen import ALL
from tests.support.agent.save_simulation import Broken, Link, World

pytestmark = pytest.mark.slow
SCHEDULES = 10_000 if ALL else 500
ELASTIC = "runs/r/elastic/0/"
AT = "runs/r/outputs/out/0/0/"
Files = Mapping[str, str]


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Have files be sent one after the other, and random names come from *seed*."""

    def each(do: Callable[[Any], None], things: Any, at_once: int = 1) -> None:
        for thing in list(things):
            do(thing)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "each", each)
        patch.setattr(os, "urandom", random.Random(seed).randbytes)
        yield


class Disk:
    """Stands for the snapshot of a folder: what has not changed is not sent again."""

    def __init__(self, output: Output, began: Files) -> None:
        self.files = began
        self.send, self._known = output.send, dict(output.manifest.files)
        self.shape = EMPTY

    def taken(self, before: Listed) -> Listed:
        found: Listed = {}
        for name, text in self.files.items():
            content = text.encode()
            digest = hashlib.sha256(content).hexdigest()
            known = self._known.get(name)
            if known is None or known.sha256 != digest:
                made = self.send(lambda content=content: io.BytesIO(content), len(content), digest)  # type: ignore[misc]
                known = self._known[name] = Entry(len(content), 0, digest, made)
            found[name] = known
        self._known = dict(found)
        return found

    def wrong(self) -> list[str]:
        return []


def state(dice: Any) -> Files:
    """Give the files of one checkpoint: all say which it is, and some contents come again."""
    step = str(dice.randrange(6))
    return {"model": "model " + step, "steps": "step " + step, "same": "same"}


def restored(link: Link, manifest: Manifest) -> Files:
    """Give the files of the save that counts, as a start finds them: the disk of the machine may have them.

    Raise Failure where one is gone.
    """
    steps, found = set(), {}
    on_disk = link.world.dice.random() < 0.5
    for name, entry in manifest.files.items():
        key = AT + OBJECTS + entry.object
        content = link.world.ever[key] if on_disk else link.get(key)
        if content is None or hashlib.sha256(content).hexdigest() != entry.sha256:
            raise Failure("it does not exist any more")
        found[name] = content.decode()
        if name != "same":
            steps.add(content.split()[1])
    if len(steps) > 1:
        raise Broken(f"a start sees the files of {steps}")
    return found


def are_there(world: World, manifest: Manifest) -> None:
    for save in manifest.saves:
        for name, entry in save.files.items():
            content = world.objects.get(AT + OBJECTS + entry.object, b"")
            if hashlib.sha256(content).hexdigest() != entry.sha256:
                raise Broken(f"save {save.number} names {name}, which is gone")


def saves(
    world: World, saver: Saver, began: Files, acknowledged: Callable[[Manifest], None]
) -> None:
    """Save a few times, as a program goes on, which need not have written anything since."""
    (output,) = saver.outputs
    disk = Disk(output, began)
    cast(Any, output).snapshot = disk
    for _ in range(1 if world.calm else world.dice.randint(1, 6)):
        if world.calm or not disk.files or world.dice.random() < 0.7:
            disk.files = state(world.dice)
        try:
            saver.once(output)
        except Failure:
            if saver.replaced:
                return
        else:
            acknowledged(output.manifest)


class Plain:
    """The attempts of a job, some of which are thought lost and are not."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.keep = self.world.dice.choice((1, 1, 2, 3))
        self.world.check = self.check
        self.holder = ""
        self.took: set[str] = set()
        self.acknowledged = 0

    def check(self, key: str) -> None:
        now = parsed(self.world.objects.get(AT + MANIFEST), AT)
        are_there(self.world, now)
        who = now.holder.partition("-")[0]
        if who != self.holder and who in self.took:
            raise Broken("a machine whose place was taken makes a save count")
        self.holder = who
        if self.acknowledged > (now.saves[-1].number if now.saves else 0):
            raise Broken(f"save {self.acknowledged} counted, and is lost")

    def attempt(self, link: Link) -> None:
        saver = Saver(link)
        saver.add("out", "/nowhere", AT, None, self.keep, restoring=False)
        self.took.add(saver.holder)
        began = restored(link, saver.outputs[0].manifest)
        saves(self.world, saver, began, self.acknowledge)

    def acknowledge(self, manifest: Manifest) -> None:
        self.acknowledged = max(self.acknowledged, manifest.saves[-1].number)


def plain(seed: int) -> None:
    job = Plain(seed)
    for _ in range(3):
        job.world.begin(job.attempt)
    job.world.run()
    job.world.calm = True
    job.world.begin(job.attempt)
    job.world.run()
    leaves_nothing(job.world)


def leaves_nothing(world: World) -> None:
    """What lies there is what the last one names."""
    named = {AT + OBJECTS + name for name in parsed(world.objects[AT + MANIFEST], AT).objects}
    if (there := {key for key in world.objects if key.startswith(AT + OBJECTS)}) != named:
        raise Broken(f"never collected: {there - named}")


class Fenced:
    """A member of an elastic job as far as a saver asks it, which reaches the store as that does."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def may_write(self, generation: int) -> bool:
        return bool(self.drive(fence.looked())[0].generation == generation)

    def commit(self, generation: int, note: str) -> bool:
        return bool(self.drive(fence.committed(generation, note)))

    def drive(self, work: fence.Work) -> Any:
        reply: Any = None
        try:
            while True:
                ask = work.send(reply)
                key = ELASTIC + ask.key
                if ask.verb == "fetch":
                    reply = self._link.fetch(key)
                else:
                    reply = self._link.swap(key, ask.content, ask.etag)
        except StopIteration as end:
            return end.value


class Elastic:
    """The generations of a job, each of two nodes, of which the second one is slow."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.check = self.check
        self.keep = self.world.dice.choice((1, 1, 2, 3))
        self.generation = 0
        self.acknowledged = 0

    def mark(self) -> fence.FencingToken:
        content = self.world.objects.get(ELASTIC + fence.FENCE)
        return fence.FencingToken() if content is None else fence.FencingToken.of(content)

    def check(self, key: str) -> None:
        """What counts is there, and what is named to those who fetch."""
        are_there(self.world, parsed(self.world.objects.get(AT + MANIFEST), AT))
        note = self.mark().note
        if note:
            bucket = cast(Link, _Quiet(self.world))
            manifest = self.kept(bucket).listed(note)["out"]
            are_there(self.world, manifest)
            if self.acknowledged > manifest.saves[-1].number:
                raise Broken(f"save {self.acknowledged} counted, and is lost")

    def kept(self, link: Link) -> CheckpointManifest:
        kept = CheckpointManifest(link, ELASTIC, "runs/r/", 0)
        kept.add("out", "/nowhere", None, self.keep)
        return kept

    def begin(self, link: Link) -> None:
        self.generation += 1
        generation, member, kept = self.generation, Fenced(link), self.kept(link)
        if not member.drive(fence.raised(generation)):
            return
        note = member.drive(fence.looked())[0].note
        began = restored(link, kept.listed(note).get("out", Manifest()))
        kept.has_restored(generation, 0, note)
        if not self.world.calm:
            self.world.begin(lambda slow: self.follow(slow, generation, note))
        nodes = 1 if self.world.calm else 2
        saver: FencedSaver = kept.saver(cast(Member, member), generation, note, nodes)
        saves(self.world, saver, began, self.acknowledge)

    def follow(self, link: Link, generation: int, note: str) -> None:
        """Begin as the slow node of a generation."""
        kept = self.kept(link)
        try:
            restored(link, kept.listed(note).get("out", Manifest()))
        except Failure as failure:
            if "gone" in str(failure) and self.mark().generation == generation:
                raise Broken("what a generation begins from is gone") from failure
        else:
            kept.has_restored(generation, 1, note)

    def acknowledge(self, manifest: Manifest) -> None:
        self.acknowledged = max(self.acknowledged, manifest.saves[-1].number)


class _Quiet:
    """The store as it is, for who only looks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def get(self, key: str) -> bytes | None:
        return self._world.objects.get(key)


def elastic(seed: int) -> None:
    job = Elastic(seed)
    for _ in range(3):
        job.world.begin(job.begin)
    job.world.run()
    job.world.calm = True
    job.world.begin(job.begin)
    job.world.run()
    leaves_nothing(job.world)


@pytest.mark.parametrize("schedule", [plain, elastic])
def test_valid_saves_are_complete_at_every_moment(schedule: Callable[[int], None]) -> None:
    """No start sees two saves, none that counted is lost, nothing that is named is deleted, and all else goes."""
    for seed in range(SCHEDULES):
        try:
            with repeatable(seed):
                schedule(seed)
        except Broken as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
