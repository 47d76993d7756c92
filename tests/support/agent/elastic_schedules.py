"""Schedules from seeds: who comes and goes, and what the network, the store and the clocks do meanwhile; then calm."""

from __future__ import annotations

from collections.abc import Callable

from runspec_agent.elastic.policy import DONE, RUNNING, Bounds, Timing
from tests.support.agent.elastic_simulation import Broken, Machine, World

BEAT_S = 5.0
TIMING = Timing.of(BEAT_S, grace_s=2 * BEAT_S)
CHAOS = (8, 25)  # beats
CALM_S = (
    3 * TIMING.lease_s + TIMING.ready_s + 3 * TIMING.last_call_s + 6 * BEAT_S
)  # until all that are up run, at the most


def scheduled(seed: int) -> World:
    """Go through one schedule. Raise Broken for what must never happen."""
    world = World(seed, Bounds(1, 1, attempts=10**6), TIMING)
    dice = world.dice
    least = dice.choice((1, 1, 1, 2, 2, 3))
    world.bounds = Bounds(least, least + dice.choice((0, 1, 2, 3)), attempts=10**6)
    for _ in range(dice.randint(1, world.bounds.most + 1)):
        world.add()
    end = dice.uniform(*CHAOS) * BEAT_S
    for _ in range(dice.randint(1, 10)):
        world.at(dice.uniform(0, end), _event(world))
    world.run(end)
    world.run(max([end, *(node.thaws for node in world.nodes if node.up)]))
    _calm(world)
    return world


def _event(world: World) -> Callable[[], None]:
    dice = world.dice
    name = dice.choices(list(EVENTS), [weight for weight, _ in EVENTS.values()])[0]
    do = EVENTS[name][1]
    seconds = dice.choice((0.5, 1, 2, 3, 4, 6, 6, 9)) * BEAT_S * dice.uniform(0.7, 1.3)

    def event() -> None:
        node = _one(world)
        if node is None:
            world.add()
        else:
            do(world, node, seconds)

    return event


def _one(world: World) -> Machine | None:
    """Choose a node: often the one that leads, or the first of those that run."""
    state, up = world.store.state, world.up()
    if not up:
        return None
    if state is not None and world.dice.random() < 0.5:
        first = state.members[0].id if state.members else state.leader
        wanted = world.dice.choice((state.leader, first))
        up = [node for node in up if node.me.id == wanted] or up
    return world.dice.choice(up)


def _cut(world: World, node: Machine, seconds: float) -> None:
    node.asks, node.hears = world.dice.choice(((False, False), (False, True), (True, False)))

    def heal() -> None:
        node.asks = node.hears = True

    world.at(world.now + 2 * seconds, heal)


def _slow(world: World, node: Machine, seconds: float) -> None:
    """Requests arrive when those who sent them have given up, and in any order."""
    world.latency_s = (0.0, world.dice.choice((1.5, 6.0, 20.0)))

    def heal() -> None:
        world.latency_s = (0.01, 0.05)

    world.at(world.now + seconds, heal)


def _lossy(world: World, node: Machine, seconds: float) -> None:
    world.loses = world.dice.choice((0.1, 0.3, 1.0))

    def heal() -> None:
        world.loses = 0.0

    world.at(world.now + seconds, heal)


def _double(world: World, node: Machine, seconds: float) -> None:
    """Something between a node and the store sends writes once more, when others have followed them."""
    world.doubles = world.dice.choice((0.2, 0.6))

    def heal() -> None:
        world.doubles = 0.0

    world.at(world.now + 2 * seconds, heal)


def _stale(world: World, node: Machine, seconds: float) -> None:
    """Lists show now what is there, and now what was there a while ago."""
    world.age()
    world.stale, world.lied = world.dice.choice((0.3, 0.8, 1.0)), True

    def heal() -> None:
        world.stale = 0.0

    world.at(world.now + seconds, heal)


def _pause(world: World, node: Machine, seconds: float) -> None:
    """Stop it when the store has done what it asks for, and before it hears of that."""
    node.pauses = world.dice.randint(1, 12), seconds


def _added(world: World) -> Callable[[], None]:
    def add() -> None:
        world.add()

    return add


def _again(world: World, node: Machine, seconds: float) -> None:
    node.kill()
    world.at(world.now + seconds / 4, _added(world))


def _hang(world: World, node: Machine, seconds: float) -> None:
    node.hangs = True


EVENTS: dict[str, tuple[int, Callable[[World, Machine, float], object]]] = {
    "join": (4, lambda world, node, s: world.add()),
    "kill": (2, lambda world, node, s: node.kill()),
    "again": (3, _again),
    "leave": (2, lambda world, node, s: node.leave()),
    "fail": (3, lambda world, node, s: node.fail(1)),
    "lose": (1, lambda world, node, s: node.fail(75)),
    "hang": (1, _hang),
    "freeze": (2, lambda world, node, s: node.freeze(s)),
    "pause": (3, _pause),
    "jump": (1, lambda world, node, s: node.jump(s)),
    "double": (2, _double),
    "stale": (1, _stale),
    "suspend": (1, lambda world, node, s: node.suspend(s)),
    "cut": (4, _cut),
    "slow": (3, _slow),
    "lossy": (2, _lossy),
}


def _calm(world: World) -> None:
    """Heal everything; then all that are up have to run together soon, if they are enough, and be able to save."""
    world.latency_s, world.loses = (0.01, 0.05), 0.0
    world.doubles = world.stale = 0.0
    for node in world.nodes:
        node.asks = node.hears = True
        node.pauses = 0, 0.0
        node.hangs = node.hangs and node.stopping
    while len(world.up()) < world.bounds.least:
        world.add()
    began, saved = world.now, 0

    def together() -> bool:
        return _together(world)

    if not world.run(began + CALM_S, together):
        raise Broken(f"after {CALM_S} s of calm: {world.store.state}")
    saved = world.store.commits
    if not world.run(world.now + 20 * BEAT_S, lambda: world.store.commits > saved):
        raise Broken(f"nothing is saved: {world.store.state}")
    _end(world)


def _together(world: World) -> bool:
    state, up = world.store.state, world.up()
    if (
        state is None
        or state.phase != RUNNING
        or len(state.members) != min(len(up), world.bounds.most)
    ):
        return False
    ids = {node.me.id for node in up}
    ranks = sorted(
        node.rank for node in up if node.running == state.generation and not node.stopping
    )
    return ids >= {m.id for m in state.members} and ranks == list(range(len(state.members)))


def _end(world: World) -> None:
    """The first node's program ends with 0, and then all know."""

    def over() -> bool:
        state = world.store.state
        for node in world.nodes:
            if (
                state is not None
                and state.rank(node.me.id) == 0
                and node.running == state.generation
            ):
                node.fail(0)
        return not world.up()

    if not world.run(world.now + CALM_S, over):
        raise Broken(f"it does not end: {world.store.state}")
    last = world.store.state
    assert last is not None, "BUG: nothing was written"
    if (last.phase, last.code) != (DONE, 0):
        raise Broken(f"it ended as {last}")
