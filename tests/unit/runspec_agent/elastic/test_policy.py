"""What becomes of an elastic job, by what its leader has seen: no clock, no store."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from runspec_agent.elastic.policy import (
    AGAIN,
    CHANGES,
    DONE,
    FINISHED,
    FORMING,
    FURTHER,
    GONE,
    IDLE,
    LATE,
    LEAVING,
    LEFT,
    OVERDUE,
    READY,
    RUNNING,
    SILENT,
    Bounds,
    Change,
    Node,
    Seen,
    Sight,
    State,
    Timing,
    decide,
    word_of,
)

TIMING = Timing.of(1.0, grace_s=10.0)
NOW = 1000.0
A, B, C, D, E = (Node(name, 2, f"host-{name}") for name in "abcde")
RUNS = State(7, 2, "a", 3, RUNNING, (A, B))
FORMS = State(7, 2, "a", 4, FORMING, (A, B))


def sight(
    *nodes: Node,
    ready: str = "",
    words: Mapping[str, str] | None = None,
    silent: Mapping[str, float] | None = None,
    first: Mapping[str, float] | None = None,
    going: Mapping[str, str] | None = None,
    since: float = 100.0,
) -> Sight:
    """All have just beaten, and came long ago, but for what is said here; a word was said half a second ago."""
    seen = {
        n.id: Seen(
            n,
            NOW - (first or {}).get(n.id, 100.0),
            NOW - (silent or {}).get(n.id, 0.0),
            (going or {}).get(n.id, ""),
        )
        for n in nodes
    }
    said = {who: {READY: NOW - 0.5} for who in ready}
    for who, word in (words or {}).items():
        said.setdefault(who, {})[word] = NOW - 0.5
    return Sight(NOW, NOW - since, 5000.0, seen, said)


def decided(state: State, found: Sight, least: int = 1, most: int = 3, attempts: int = 2) -> State:
    return decide(state, found, Bounds(least, most, attempts), TIMING)


# A generation that runs


@pytest.mark.parametrize(("code", "phase"), [(42, DONE), (41, FORMING)])
def test_a_rule_of_the_spec_ends_the_job_at_its_first_failure(code: int, phase: str) -> None:
    rules = {"retry_on": [{"codes": [[42, 42]], "action": "stop"}]}
    failed = sight(A, B, words={"b": f"failed-{code}"})

    found = decide(RUNS, failed, Bounds(1, 3, attempts=2, rules=rules), TIMING)

    assert (found.phase, found.code) == (phase, code if phase == DONE else 0)


def test_an_unchanged_view_keeps_the_state() -> None:
    assert decided(RUNS, sight(A, B)) is RUNS


@pytest.mark.parametrize(
    "found, why",
    [
        (sight(A, B, silent={"b": 3.1}), "host-b is lost"),
        (sight(A), "host-b is lost"),
        (sight(A, B, going={"b": GONE}), "host-b is lost"),
        (sight(A, B, going={"b": LEAVING}), "host-b is leaving"),
        (sight(A, B, words={"b": AGAIN}), "host-b restarts"),
    ],
    ids=["silent", "never seen", "gone", "leaving", "again"],
)
def test_a_change_forms_a_new_generation(found: Sight, why: str) -> None:
    """Its members are those that have to stop first."""
    new = decided(RUNS, found)

    assert (new.generation, new.phase, new.members, new.why) == (4, FORMING, (A, B), why)
    assert new.changes == (Change(4, FORMING, 2, 5000.0, why),)


@pytest.mark.parametrize("state", [RUNS, FORMS], ids=["running", "forming"])
def test_the_first_node_whose_time_is_over_ends_the_job(state: State) -> None:
    """There is no other attempt: the clock of each node runs from its own start."""
    new = decide(state, sight(A, B, C, going={"c": OVERDUE}), Bounds(1, 3, 2, 20.0), TIMING)

    assert (new.phase, new.code, new.why) == (DONE, 124, "timeout: not done after 20 s")


def test_a_lease_is_three_beats() -> None:
    assert decided(RUNS, sight(A, B, silent={"b": 2.9})) is RUNS


def test_a_new_leader_waits_for_a_lease_before_it_calls_nodes_lost() -> None:
    """It has not looked for as long as a lease."""
    assert decided(RUNS, sight(A, since=2.0)) is RUNS


def test_a_node_joins_after_the_last_call() -> None:
    """Others may be about to come, and each beginning costs all of them."""
    assert decided(RUNS, sight(A, B, C, ready="c", first={"c": 2.9}), most=4) is RUNS

    new = decided(RUNS, sight(A, B, C, ready="c", first={"c": 3.0}), most=4)

    assert (new.phase, new.why) == (FORMING, "host-c joined")


def test_each_that_comes_makes_the_call_longer_but_not_for_ever() -> None:
    few = sight(A, B, C, D, ready="cd", first={"c": 8.9, "d": 2.0})
    assert decided(RUNS, few, most=5) is RUNS

    late = sight(A, B, C, D, ready="cd", first={"c": 9.0, "d": 2.0})
    assert decided(RUNS, late, most=5).why == "host-c, host-d joined"


def test_nobody_is_waited_for_when_all_places_are_taken() -> None:
    found = sight(A, B, C, ready="c", first={"c": 0.1})

    assert decided(RUNS, found, most=3).phase == FORMING


def test_a_node_too_many_waits() -> None:
    assert decided(RUNS, sight(A, B, C, ready="c"), most=2) is RUNS


def test_a_node_whose_program_still_runs_does_not_join() -> None:
    """It was dropped, and has not said that it has stopped."""
    assert decided(RUNS, sight(A, B, C)) is RUNS


def test_a_new_generation_is_given_time() -> None:
    """Nodes that come one by one would keep the program from running at all."""
    assert decided(RUNS, sight(A, B, C, ready="c", since=2.9)) is RUNS


# The end of a program


def test_the_first_nodes_program_ends_the_job() -> None:
    new = decided(RUNS, sight(A, B, words={"a": FINISHED}))

    assert (new.phase, new.code, new.generation) == (DONE, 0, 3)


def test_the_end_of_another_nodes_program_does_not_end_the_job() -> None:
    assert decided(RUNS, sight(A, B, words={"b": FINISHED})) is RUNS


def test_a_program_that_ended_while_others_were_told_to_stop_has_ended() -> None:
    new = decided(FORMS, sight(A, B, ready="b", words={"a": FINISHED}, since=0.1))

    assert (new.phase, new.code) == (DONE, 0)


def test_done_is_done() -> None:
    done = RUNS._replace(phase=DONE, code=3)

    assert decided(done, sight(A, B, words={"a": FINISHED})) is done


def test_a_failure_counts_when_all_others_live() -> None:
    """They have beaten since it was seen."""
    found = sight(A, B, words={"b": word_of(7)})

    first = decided(RUNS, found)
    assert (first.generation, first.phase, first.failures) == (4, FORMING, 1)

    last = decided(RUNS._replace(failures=1), found)
    assert (last.phase, last.code, last.why) == (DONE, 7, "the program of host-b exited with 7")


def test_a_failure_is_put_off_until_they_do() -> None:
    assert decided(RUNS, sight(A, B, words={"b": word_of(7)}, silent={"a": 0.6})) is RUNS


def test_a_failure_where_another_has_gone_does_not_count() -> None:
    """A program fails where the one it talks to has gone."""
    new = decided(RUNS, sight(A, B, words={"b": word_of(1)}, silent={"a": 3.1}))

    assert (new.phase, new.failures, new.why) == (FORMING, 0, "host-a is lost")


def test_where_all_fail_one_failure_counts() -> None:
    new = decided(RUNS, sight(A, B, words={"a": word_of(1), "b": word_of(2)}, silent={"a": 2.0}))

    assert (new.phase, new.failures) == (FORMING, 1)


@pytest.mark.parametrize(
    "code, word",
    [
        (0, FINISHED),
        (75, "again-75"),
        (143, "again-143"),
        (1, "failed-1"),
        (137, "failed-137"),
    ],
)
def test_an_exit_code_becomes_a_message_of_the_node(code: int, word: str) -> None:
    assert word_of(code) == word


def test_a_program_that_asks_for_the_next_generation_gets_it_and_is_counted() -> None:
    """Not so a node that stopped it because the store was silent."""
    new = decided(RUNS, sight(A, B, words={"b": word_of(143)}))

    why = "the program of host-b exited with 143"
    assert (new.generation, new.phase, new.idle, new.why) == (4, FORMING, 1, why)
    assert decided(RUNS, sight(A, B, words={"b": AGAIN})).idle == 0


def test_a_program_that_ended_since_another_node_goes_is_not_counted() -> None:
    new = decided(RUNS, sight(A, B, words={"a": word_of(143)}, going={"b": LEAVING}))

    assert (new.why, new.idle) == ("host-b is leaving", 0)


IDLES = FORMS._replace(idle=IDLE, why="the program of host-b exited with 143")


def test_a_program_that_asks_for_ever_and_gets_no_further_ends_the_job() -> None:
    """With a code after which no service tries it again."""
    less = decided(IDLES._replace(idle=IDLE - 1), sight(A, B, ready="ab", since=0.1))
    assert (less.phase, less.idle) == (RUNNING, IDLE - 1)

    new = decided(IDLES, sight(A, B, ready="ab", since=0.1))

    assert (new.phase, new.code) == (DONE, 1)
    assert new.why.startswith("the program of host-b exited with 143: 10 times in a row")


def test_a_generation_waits_for_word_about_progress() -> None:
    """The first node says so when it has saved."""
    assert decided(IDLES, sight(A, B, ready="b", since=0.1)) is IDLES


@pytest.mark.parametrize(
    "found",
    [
        sight(A, B, ready="ab", words={"a": FURTHER}, since=0.1),
        sight(A, B, ready="a", silent={"b": 3.1}, since=0.1),
        sight(A, B, C, ready="abc", since=0.1),
    ],
    ids=["it got on", "a node is lost", "another came"],
)
def test_the_count_begins_anew_where_it_got_on_or_has_other_nodes(found: Sight) -> None:
    """A program ends so, too, when it sees that another node went."""
    new = decided(IDLES, found)

    assert (new.phase, new.idle) == (RUNNING, 0)


# A generation that forms


def test_a_generation_runs_when_all_its_nodes_are_ready() -> None:
    new = decided(FORMS, sight(A, B, ready="ab", since=0.1))

    assert (new.generation, new.phase, new.members) == (4, RUNNING, (A, B))


def test_a_generation_waits_for_nodes_that_save() -> None:
    assert decided(FORMS, sight(A, B, ready="a", since=12.9)) is FORMS


def test_a_generation_waits_no_longer_than_grace_and_lease() -> None:
    """The grace of the program and a lease."""
    assert decided(FORMS, sight(A, B, ready="a", since=13.1)).members == (A,)


def test_a_generation_does_not_wait_for_lost_nodes() -> None:
    assert decided(FORMS, sight(A, B, ready="a", silent={"b": 3.1}, since=0.1)).members == (A,)
    assert decided(FORMS, sight(A, B, ready="a", going={"b": GONE}, since=0.1)).members == (A,)


def test_a_generation_waits_for_a_leaving_node_to_save() -> None:
    """What it saves is what the others begin with."""
    waits = sight(A, B, ready="a", going={"b": LEAVING}, since=5.0)
    assert decided(FORMS, waits) is FORMS

    new = decided(FORMS, sight(A, B, ready="ab", going={"b": LEAVING}, since=5.0))

    assert new.members == (A,)


def test_staying_nodes_keep_their_order_and_new_ones_follow() -> None:
    """Rank 0 moves when it does not exist any more, and not before."""
    forms = FORMS._replace(members=(D, C, B))

    new = decided(forms, sight(A, B, C, D, E, ready="abde", silent={"c": 5.0}), most=4)

    assert new.members == (D, B, A, E)


def test_a_generation_has_at_most_the_maximum_of_nodes() -> None:
    forms = FORMS._replace(members=(D,))

    assert decided(forms, sight(A, B, C, D, ready="abcd"), most=2).members == (D, A)


def test_a_generation_does_not_run_below_the_minimum_of_nodes() -> None:
    assert decided(FORMS, sight(A, B, ready="ab"), least=3) is FORMS
    assert decided(FORMS, sight(A, B, C, ready="abc"), least=3).phase == RUNNING


def test_a_spare_node_comes_in_at_once() -> None:
    """There is nobody to be called: it has waited."""
    new = decided(FORMS, sight(A, B, C, ready="ac", silent={"b": 3.1}, since=0.1), most=2)

    assert new.members == (A, C)


def test_the_first_generation_waits_for_the_last_call() -> None:
    """It begins when there are enough, and then for those that come at about the same time."""
    first = State(1, 1, "a")
    assert decided(first, sight(A, ready="a", first={"a": 2.9})) is first
    assert decided(first, sight(A, ready="a", first={"a": 3.0})).members == (A,)

    late = sight(A, B, ready="ab", first={"a": 500.0, "b": 1.0})
    assert decided(first, late, least=2) is first
    assert decided(first, late, least=2, most=2).members == (A, B)


def test_a_generation_waits_a_moment_for_nodes_that_are_not_ready() -> None:
    """Or the generation that was formed for a node would begin without it."""
    assert decided(FORMS, sight(A, B, C, ready="ab", since=1.4)) is FORMS
    assert decided(FORMS, sight(A, B, C, ready="ab", since=1.6)).members == (A, B)


# Records


def test_a_generation_says_what_became_of_those_before() -> None:
    """Those that stay are its first members; one said that it goes, one was silent, and one did not stop in time."""
    before = State(7, 2, "a", 4, FORMING, (A, B, C, D))
    found = sight(A, B, C, D, E, ready="ae", going={"b": LEAVING}, silent={"c": 3.1})

    new = decided(before, found, most=5)

    assert (new.phase, new.members, new.stayed) == (RUNNING, (A, E), 1)
    assert new.went == ((B, LEFT), (C, SILENT), (D, LATE))
    assert State.of(new.to_bytes()) == new


def test_a_state_comes_back_from_its_bytes() -> None:
    state = decided(RUNS, sight(A, B, words={"b": AGAIN}))

    assert State.of(state.to_bytes()) == state


def test_a_state_tells_of_the_last_changes_only() -> None:
    """All nodes read it with each beat."""
    state = RUNS._replace(changes=tuple(Change(n, RUNNING, 1, 1.0, "") for n in range(CHANGES)))

    new = decided(state, sight(A))

    assert len(new.changes) == CHANGES
    assert new.changes[-1].why == "host-b is lost"


def test_a_node_stops_before_the_others_think_it_gone() -> None:
    """By more than clocks differ in rate."""
    assert TIMING.limit_s * 1.1 < TIMING.lease_s
    assert TIMING.limit_s > 2 * TIMING.beat_s
