"""The machines of a simulated job: allocated from pools, paid for, and reclaimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.simulate.trace import Event, Pool, Trace

Dice = Callable[[], float]  # returns a random number that is at least 0 and less than 1
NEVER = math.inf


class Lost(NamedTuple):
    """A machine that was lost; *told* says whether its node got a notice."""

    node: int
    told: bool


class Changes(NamedTuple):
    """The machines that started or were lost at one moment, by the numbers of their nodes."""

    up: tuple[int, ...] = ()
    lost: tuple[Lost, ...] = ()


@dataclass
class Machine:
    """One machine that is allocated to the task *slot*."""

    node: int
    slot: int
    pool: str
    up_s: float
    ends_s: float
    up: bool = False


@dataclass
class Place:
    """The current state of a pool."""

    settings: Pool
    most: int
    price: float
    nodes: int
    held: int = 0
    back_s: list[float] = field(default_factory=list)  # when lost machines are available again

    @property
    def free(self) -> bool:
        return self.held < min(self.most, self.nodes - len(self.back_s))


class Fleet:
    """Machines for *slots* tasks with at most *tries* attempts each, from pools in the order of *take*."""

    def __init__(
        self, trace: Trace, take: Mapping[str, int], slots: int, tries: float, dice: Dice
    ) -> None:
        self.places = {
            name: Place(pool, take[name], pool.price, pool.nodes)
            for name, pool in ((name, trace.pools[name]) for name in take)
        }
        self.events = [event for event in trace.events if event.pool in take]
        self.left = dict.fromkeys(range(slots), tries)
        self.machines: list[Machine] = []
        self.dice = dice
        self.made = 0
        self.cost = 0.0
        self.node_s = 0.0

    def find_next_time(self) -> float:
        """Return the time of the next event."""
        moments = [machine.ends_s for machine in self.machines]
        moments += [machine.up_s for machine in self.machines if not machine.up]
        moments += [event.time for event in self.events[:1]]
        moments += [back for pool in self.places.values() for back in pool.back_s]
        return min(moments, default=NEVER)

    def pay(self, seconds: float) -> None:
        """Add the price of all allocated machines for *seconds*."""
        for pool in self.places.values():
            self.cost += pool.held * pool.price * seconds / 3600
            self.node_s += pool.held * seconds

    def apply_events(self, now_s: float) -> Changes:
        """Apply all events at *now_s*, and return the machines that started or were lost."""
        # Losses come before allocations: a machine that is lost now may be replaced in the same moment.
        lost = [self._lose(m, now_s) for m in list(self.machines) if m.ends_s <= now_s]
        while self.events and self.events[0].time <= now_s:
            lost += self._apply_event(self.events.pop(0), now_s)
        for pool in self.places.values():
            pool.back_s = [back for back in pool.back_s if back > now_s]
        self._take(now_s)
        up = [m for m in self.machines if not m.up and m.up_s <= now_s]
        for machine in up:
            machine.up = True
        return Changes(tuple(m.node for m in up), tuple(lost for lost in lost if lost))

    def _apply_event(self, event: Event, now_s: float) -> list[Lost | None]:
        pool = self.places[event.pool]
        pool.price = pool.price if event.price is None else event.price
        pool.nodes = pool.nodes if event.nodes is None else event.nodes
        # Which machines a service reclaims is not known. The newest ones have done the least work for this job.
        newest = [machine for machine in self.machines if machine.pool == event.pool][::-1]
        lost = [self._lose(machine, now_s) for machine in newest[: event.lost or 0]]
        machines = newest[event.lost or 0 :]
        too_many = max(0, len(machines) - pool.nodes)
        return lost + [self._lose(machine, now_s, fewer=True) for machine in machines[:too_many]]

    def _lose(self, machine: Machine, now_s: float, *, fewer: bool = False) -> Lost | None:
        """Reclaim *machine*, for good if the pool has *fewer*; return the loss, or None if it had not started."""
        self.machines.remove(machine)
        pool = self.places[machine.pool]
        pool.held -= 1
        # A pool that has shrunk does not get the machine back.
        if pool.settings.wait and not fewer:
            pool.back_s.append(now_s + self._draw_time(pool.settings.wait))
        return Lost(machine.node, pool.settings.notice > 0) if machine.up else None

    def _take(self, now_s: float) -> None:
        """Allocate a machine for each task that has none, as far as the pools have free machines."""
        busy = {machine.slot for machine in self.machines}
        idle = [slot for slot, left in self.left.items() if left > 0 and slot not in busy]
        for name, pool in self.places.items():
            while idle and pool.free:
                self._give(idle.pop(0), name, pool, now_s)

    def _give(self, slot: int, name: str, pool: Place, now_s: float) -> None:
        rate = pool.settings.losses_per_hour
        # The life of a machine counts from its allocation, because it may be reclaimed while it starts.
        ends_s = now_s + self._draw_time(3600 / rate) if rate else NEVER
        self.machines.append(Machine(self.made, slot, name, now_s + pool.settings.boot, ends_s))
        self.made += 1
        self.left[slot] -= 1
        pool.held += 1

    def _draw_time(self, mean_s: float) -> float:
        # The exponential distribution: losses do not depend on the age of a machine. `1 -` because dice may be 0.
        return -mean_s * math.log(1 - self.dice())
