"""A store in memory and machines that save there, of which one moves at a time: a seed says which, and what goes wrong.

Machines are lost, freeze and wake up. Replies are lost, and requests come later than those of others, or twice.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket, Object, Opened

Change = Callable[[], Any]


class Broken(AssertionError):
    """What must never happen has happened."""


class Killed(BaseException):
    """The machine is no more."""


class World:
    """*check* looks at the objects after each change of the store."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.objects: dict[str, bytes] = {}
        self.ever: dict[str, bytes] = {}  # what was sent, which may be gone
        self.late: list[Change] = []
        self.machines: list[Machine] = []
        self.check: Callable[[str], None] = lambda key: None
        self.calm = False
        self.wrong: BaseException | None = None
        self._turn = threading.Semaphore(0)

    def begin(self, do: Callable[[Link], None]) -> None:
        self.machines.append(Machine(self, do))

    def run(self) -> None:
        """Go on until all machines are done or lost, and whatever they sent has come."""
        while self.wrong is None:
            awake = [one for one in self.machines if one.alive]
            if self.late and (not awake or self.dice.random() < 0.1):
                self._done(self.late.pop(self.dice.randrange(len(self.late))))
            elif awake:
                self._moved(awake)
            else:
                break
        for one in self.machines:
            one.killed = True
            while one.alive:
                self.move(one)
            one.thread.join()
        if self.wrong is not None:
            raise self.wrong

    def _done(self, change: Change) -> None:
        try:
            change()
        except Broken as broken:
            self.wrong = broken

    def _moved(self, awake: list[Machine]) -> None:
        """Have one move: frozen ones when their time has come."""
        for one in awake:
            one.frozen -= 1
        ready = [one for one in awake if one.frozen <= 0]
        if not ready:
            return
        one = self.dice.choice(ready)
        if not self.calm and self.dice.random() < 0.06:
            one.frozen = self.dice.choice((10, 40, 150))
        one.killed = not self.calm and self.dice.random() < 0.01
        self.move(one)

    def move(self, one: Machine) -> None:
        one.go.release()
        self._turn.acquire()

    def waits(self) -> None:
        self._turn.release()


class Machine:
    """A thread that waits for its turn before and after each request."""

    def __init__(self, world: World, do: Callable[[Link], None]) -> None:
        self.world, self._do = world, do
        self.go = threading.Semaphore(0)
        self.alive, self.killed = True, False
        self.frozen = 0 if world.calm else world.dice.choice((0, 0, 10, 40))  # moves of all
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.killed:
                self._do(Link(self))
        except (Failure, Killed):
            pass
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.world.wrong = self.world.wrong or error
        finally:
            self.alive = False
            self.world.waits()

    def pause(self) -> None:
        """Let others move. Raise Killed where this one never does again."""
        self.world.waits()
        self.go.acquire()
        if self.killed:
            raise Killed


class Link(Bucket):
    """The store, as one machine reaches it."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self.world = machine, machine.world

    def get(self, key: str) -> bytes | None:
        self._reads()
        found = self.world.objects.get(key)
        self._machine.pause()
        return found

    def fetch(self, key: str) -> tuple[bytes, str] | None:
        found = self.get(key)
        return None if found is None else (found, _version(found))

    def listing(self, prefix: str) -> Iterator[Object]:
        self._reads()
        there = sorted(self.world.objects)
        self._machine.pause()
        return iter([Object(key, 1, "") for key in there if key.startswith(prefix)])

    def put(self, key: str, content: bytes) -> None:
        self.world.ever[key] = content
        self._changes(key, lambda: self.world.objects.__setitem__(key, content))

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        with opened() as stream:
            self.put(key, stream.read())

    def delete(self, key: str) -> None:
        self._changes(key, lambda: self.world.objects.pop(key, None))

    def swap(self, key: str, content: bytes, version: str | None) -> str | None:
        """Ask again where a reply was lost, as the ways to the services do."""

        def change() -> bool:
            there = self.world.objects.get(key)
            if (None if there is None else _version(there)) != version:
                return False
            self.world.objects[key] = content
            return True

        if self._changes(key, change) and self.world.dice.random() < 0.9:
            return _version(content)
        found = self.fetch(key)
        return found[1] if found is not None and found[0] == content else None

    def _reads(self) -> None:
        self._machine.pause()
        if not self.world.calm and self.world.dice.random() < 0.02:
            raise Failure("cannot reach the store")

    def _changes(self, key: str, change: Change) -> Any:
        def checked() -> Any:
            found = change()
            self.world.check(key)
            return found

        self._machine.pause()
        kinds = ("done", "refused", "lost", "late", "twice")
        kind = "done" if self.world.calm else self.world.dice.choices(kinds, (80, 3, 6, 6, 5))[0]
        found = checked() if kind in ("done", "lost", "twice") else None
        if kind in ("late", "twice"):
            self.world.late.append(checked)
        self._machine.pause()
        if kind in ("refused", "lost", "late"):
            raise Failure("cannot reach the store")
        return found


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
