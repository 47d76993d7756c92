"""A status stays short, however many nodes there are and however often they were tried."""

from __future__ import annotations

from runspec_jobs.api.resize import Size
from runspec_jobs.cli.views import node_table
from runspec_jobs.provider import Attempt, NodeStatus, State


def failed(task: int, *attempts: Attempt) -> NodeStatus:
    return NodeStatus(task, 0, len(attempts), State.FAILED, "", attempts[-1].exit_code, attempts)


def test_a_single_attempt_is_not_listed() -> None:
    one = failed(0, Attempt(1, 3, "exited with code 3"))

    assert list(node_table.lines([one])) == ["  task 0 node 0: failed, exit code 3"]


def test_the_meaning_of_an_exit_code_stands_beside_it() -> None:
    tries = (Attempt(1, 137, "exited with code 137 (SIGKILL)"), Attempt(2, 1, "exited with code 1"))

    assert list(node_table.lines([failed(0, *tries)]))[1:] == [
        "    attempt 1 of 2: exit code 137 (SIGKILL)",
        "    attempt 2 of 2: exit code 1",
    ]


def test_machines_that_were_taken_away_are_counted_apart() -> None:
    gone = "the machine was taken away (Host EC2)"
    tries = (Attempt(1, None, gone, True), Attempt(2, 143, gone, True), Attempt(3, 1, "oh"))

    assert list(node_table.lines([failed(4, *tries)])) == [
        "  task 4 node 0: failed, exit code 1, attempt 3",
        "    attempt 1 of 3: the machine was taken away (Host EC2)",
        "    attempt 2 of 3: exit code 143; the machine was taken away (Host EC2)",
        "    attempt 3 of 3: exit code 1; oh",
        "    spot machine reclaimed 2 times",
    ]


def test_ten_thousand_tasks_are_no_ten_thousand_lines() -> None:
    done = [NodeStatus(n, 0, 1, State.SUCCEEDED, "", 0) for n in range(9000)]
    bad = [failed(n, Attempt(1, 1, "exited with code 1")) for n in range(9000, 10_000)]

    told = list(node_table.lines([*done, *bad]))

    assert told[0] == "  nodes: 9,000 succeeded, 1,000 failed"
    assert told[-1] == "  and 950 more that failed or were retried: --json lists all"
    assert len(told) == 52


def test_control_characters_of_reasons_are_not_printed() -> None:
    one = failed(0, Attempt(1, 1, "\x1b[2J"), Attempt(2, 1, "x"))

    assert "\x1b" not in "".join(node_table.lines([one]))


def test_programs_get_names_and_not_places() -> None:
    (row,) = node_table.rows([failed(0, Attempt(1, 3, "so"))])

    assert row["attempts"][0]["exit_code"] == 3


def test_one_node_that_is_left_is_said_as_one() -> None:
    one, eight = Size(1, 1, ((0, 1),)), Size(8, 7, ())

    assert list(node_table.size_lines(one)) == ["1 node is asked for, 1 runs; released: 1"]
    assert list(node_table.size_lines(eight)) == ["8 nodes are asked for, 7 run"]
