"""How long things take and what they ask of the store, in simulated time, where nothing goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.elastic.fence import Ask, FencingToken
from runspec_agent.elastic.policy import (
    DONE,
    FORMING,
    IDLE,
    RUNNING,
    Bounds,
    Node,
    State,
    Timing,
)
from runspec_agent.elastic.protocol import MemberProtocol
from tests.support.agent.elastic_simulation import Machine, World

TIMING = Timing.of(5.0, grace_s=10.0)


def running(count: int, least: int = 1, most: int = 0, seed: int = 1) -> World:
    """Give a world in which so many nodes run together."""
    world = World(seed, Bounds(least, most or count, 1), TIMING)
    for _ in range(count):
        world.add()
    assert world.run(60.0, lambda: together(world))
    return world


def together(world: World) -> bool:
    state = world.store.state
    wanted = min(len(world.up()), world.bounds.most)
    if state is None or state.phase != RUNNING or len(state.members) != wanted:
        return False
    return sum(n.running == state.generation and not n.stopping for n in world.up()) == wanted


def state(world: World) -> State:
    found = world.store.state
    assert found is not None
    return found


def leader(world: World) -> Machine:
    return next(node for node in world.nodes if node.me.id == state(world).leader)


@pytest.mark.parametrize("first", [False, True])
def test_the_end_of_an_agent_is_noticed_before_its_lease_ends(first: bool) -> None:
    """Also that of the leader: the port of its agent refuses a connection to another node."""
    world = running(3)
    world.run(world.now + 20.0)
    lost = next(node for node in world.nodes if (node is leader(world)) == first)
    lost.kill()
    began = world.now

    assert world.run(began + 60.0, lambda: state(world).generation > 1, every_s=0.1)

    assert world.now - began < TIMING.beat_s + 2.0
    assert lost.me.host in state(world).why


def test_a_node_asks_twice_a_beat_and_the_leader_four_times() -> None:
    """Beat and look; the leader lists nodes and words instead of looking, and renews the state."""
    world = running(8)
    first, beats = leader(world), 100
    world.saves = 0.0
    world.run(world.now + 20.0)
    for node in world.nodes:
        node.asked.clear()

    world.run(world.now + beats * TIMING.beat_s)

    for node in world.nodes:
        once = node.asked["put"]
        assert beats * 0.9 < once < beats * 1.2
        leads = {"put": once, "list": 2 * once, "swap": once}
        wanted = leads if node is first else {"put": once, "fetch": once}
        assert {
            verb: abs(node.asked[verb] - n) <= 2 for verb, n in wanted.items()
        } == dict.fromkeys(wanted, True)
        assert set(node.asked) == set(wanted)


@pytest.mark.parametrize("who", ["leader", "other"])
def test_a_killed_node_is_gone_after_its_lease(who: str) -> None:
    """And soon the others run; who leads has to be missed before that, too."""
    world = running(4, seed=3)
    first = leader(world)
    killed = first if who == "leader" else next(n for n in world.nodes if n is not first)
    world.run(world.now + 12.0)
    began = world.now

    killed.kill()

    leases = 2 if who == "leader" else 1
    assert world.run(began + leases * 16.0 + 4 * TIMING.beat_s, lambda: together(world))
    assert world.now - began > TIMING.lease_s * 0.7
    assert len(state(world).members) == 3


def test_a_node_that_leaves_is_not_waited_for() -> None:
    """Neither is the leader: it says that it goes."""
    world = running(4, seed=2)
    world.run(world.now + 12.0)
    began = world.now

    leader(world).leave()

    assert world.run(began + 4 * TIMING.beat_s, lambda: together(world))
    assert (len(state(world).members), state(world).term) == (3, 2)


def test_a_node_that_leaves_says_why_where_the_others_look_for_it() -> None:
    node = MemberProtocol(Node("a", 1, "h"), Bounds(1, 1), TIMING, lambda: 0.0)

    node.leave(why="told to end")

    assert Ask("put", "nodes/a,1,h,leaving", b"told to end") in list(node.part())


def test_the_last_save_of_a_leaving_first_node_is_valid() -> None:
    world = running(3, seed=4)
    (first,) = (node for node in world.nodes if node.rank == 0 and node.running)

    first.leave()
    world.run(world.now + 5 * TIMING.beat_s, lambda: not first.up)

    generation, note = world.store.notes[-1]
    assert note.endswith(f"by {first.me.id}")
    assert generation == 1


def test_a_node_too_many_comes_in_when_another_goes() -> None:
    world = running(3, most=2)
    spare = next(node for node in world.nodes if not node.running)
    generation = state(world).generation
    world.run(world.now + 10 * TIMING.beat_s)
    assert (spare.running, state(world).generation) == (0, generation)

    world.nodes[0].kill()

    assert world.run(world.now + 60.0, lambda: together(world))
    assert spare.running == state(world).generation


def test_too_few_nodes_wait_for_more() -> None:
    world = running(2, least=2, most=3)
    world.nodes[0].kill()
    world.run(world.now + 200.0)
    assert (state(world).phase, world.nodes[1].running) == (FORMING, 0)

    world.add()

    assert world.run(world.now + 30.0, lambda: together(world))


def test_a_late_node_finds_the_job_done() -> None:
    world = running(2)
    next(n for n in world.nodes if n.rank == 0).fail(0)
    world.run(world.now + 20.0, lambda: not world.up())
    for node in world.nodes:
        node.kill()

    late = world.add()

    assert world.run(world.now + 5.0, lambda: not late.up)
    assert late.view is not None
    assert (late.view.phase, late.view.code, late.view.rank) == (DONE, 0, None)


def test_a_program_that_failed_too_often_ends_the_job_with_its_code() -> None:
    world = running(3)

    world.nodes[1].fail(7)

    assert world.run(world.now + 30.0, lambda: not world.up())
    assert (state(world).phase, state(world).code) == (DONE, 7)
    assert {node.view.code for node in world.nodes if node.view} == {7}


def test_a_program_that_fails_because_another_node_went_is_no_failure() -> None:
    """Once is enough to end the job: but this is none."""
    world = running(3, seed=6)
    world.nodes[1].kill()
    for node in world.up():
        node.fail(1)

    assert world.run(world.now + 60.0, lambda: together(world))
    assert state(world).failures == 0


def beginning_again(world: World, who: Machine, times: int) -> None:
    """Have the program of one node ask for the next generation, so many times."""
    for generation in range(state(world).generation, state(world).generation + times):
        who.fail(143)
        assert world.run(world.now + 60.0, lambda: state(world).generation > generation)  # noqa: B023
        world.run(world.now + 60.0, lambda: together(world) or not world.up())


@pytest.mark.parametrize("number", [0, 1])
def test_a_program_that_begins_again_for_ever_ends_the_job(number: int) -> None:
    """Whoever of its nodes it is that ends; getting on once makes it begin to count anew."""
    world = running(3, seed=8)
    first = next(node for node in world.nodes if node.rank == 0)
    who = [first, next(node for node in world.nodes if node is not first)][number]
    for node in world.nodes:
        node.further = False
    beginning_again(world, who, IDLE - 1)
    assert state(world).idle == IDLE - 1
    first.further = True
    beginning_again(world, who, 1)
    assert state(world).idle == 0
    first.further = False
    beginning_again(world, who, IDLE - 1)
    assert together(world)

    beginning_again(world, who, 1)

    assert (state(world).phase, state(world).code) == (DONE, 1)
    assert world.run(world.now + 30.0, lambda: not world.up())


def test_a_node_that_has_got_on_says_so_before_it_is_ready() -> None:
    """The next generation may begin at the moment that it is."""
    world = running(1)

    beginning_again(world, world.nodes[0], 1)

    assert list(world.store.folders["said/2/"]) == ["000,further", "000,ready"]


def test_a_program_that_begins_again_while_nodes_come_and_go_is_given_time() -> None:
    """It ends so where it loses another one, and its agent hears of that later."""
    world = running(3, seed=9)
    for _ in range(IDLE + 2):
        for node in world.nodes:
            node.further = False
        world.up()[0].kill()
        world.up()[0].fail(143)
        world.add()
        assert world.run(world.now + 90.0, lambda: together(world))

    assert (state(world).phase, state(world).idle) == (RUNNING, 0)


def test_a_job_whose_state_was_taken_away_is_not_begun_anew() -> None:
    """Its run is being deleted."""
    world = running(1)
    world.store.records.clear()

    world.run(world.now + 30.0)

    assert world.store.state is None
    assert world.nodes[0].course.view().lost


def test_a_program_that_ended_or_has_to_leave_is_not_begun_again() -> None:
    """In the same generation."""
    world = running(2)
    one, other = world.nodes

    one.fail(75)
    other.leave()

    assert (one.course.view().rank, other.course.view().rank) == (None, None)


def test_a_node_name_with_a_comma_is_refused() -> None:
    with pytest.raises(Failure, match="comma"):
        MemberProtocol(Node("a,b", 1, "h"), Bounds(1, 1), TIMING, lambda: 0.0)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"members": 1, "changes": []}'])
def test_an_unreadable_record_is_refused(content: bytes) -> None:
    for kind in (State, FencingToken):
        with pytest.raises(Failure, match="cannot be read"):
            kind.of(content if kind is State or content != b"{}" else b"x")


def test_a_file_that_is_none_of_ours_is_no_node() -> None:
    """Somebody looked into the folder, and left something."""
    world = running(2)

    for name in ("nodes/.DS_Store", "nodes/a,b,c", "nodes/a,1", "said/1/x"):
        world.store.do(Ask("put", name), "")

    world.run(world.now + 20.0)
    assert together(world) and state(world).generation == 1


def test_a_program_that_ends_while_the_next_generation_forms_has_ended() -> None:
    """Nobody runs what is done a second time."""
    world = running(2, most=3, seed=5)
    (first,) = (node for node in world.nodes if node.rank == 0 and node.running)
    world.add()
    assert world.run(world.now + 60.0, lambda: state(world).phase == FORMING, every_s=0.01)

    first.fail(0)

    assert world.run(world.now + 30.0, lambda: not world.up())
    assert (state(world).phase, state(world).code, set(world.store.ran)) == (DONE, 0, {1})


def test_a_leader_that_is_stopped_while_it_asks_does_not_take_who_lives_for_gone() -> None:
    """What it was shown is old by then: who was silent in it for less than a lease has beaten since."""
    now, etags = [0.0], iter(range(100))
    course = MemberProtocol(Node("a", 1, "h"), Bounds(1, 2, 1), TIMING, lambda: now[0])
    runs = State(5, 1, "a", 1, RUNNING, (Node("b", 1, "other"),))

    def passed(stops_s: float) -> list[Ask]:
        work, asked = course.step(), list[Ask]()
        reply: Any = None
        while True:
            try:
                asked.append(work.send(reply))
            except StopIteration:
                return asked
            ask = asked[-1]
            reply = f"etag {next(etags)}" if ask.verb == "swap" else None
            if ask.verb == "fetch":
                reply = runs.to_bytes(), "first"
            if ask.verb == "list":
                reply = [("b,1,other", "beat 1")] if ask.key == "nodes/" else []
                now[0] += stops_s if ask.key == "nodes/" else 0.0

    passed(0.0)
    now[0] += 0.9 * TIMING.beat_s
    passed(0.0)
    passed(2.2 * TIMING.beat_s)

    assert course.state is not None and course.state.generation == 1
