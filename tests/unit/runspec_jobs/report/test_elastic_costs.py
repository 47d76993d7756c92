"""What changes of nodes have cost: what is not known is not taken for nothing, and nothing is counted twice."""

from __future__ import annotations

import pytest

from runspec_jobs.provider import MembershipChange, RemoteError
from runspec_jobs.provider.types import NodeRef, changes_of
from runspec_jobs.report import elastic_costs
from runspec_jobs.report.page.frame import draw_changes
from runspec_jobs.report.tables import list_changes_facts, make_changes_table
from tests.support.change_records import record

B, C = NodeRef(1, "10.0.0.1"), NodeRef(2, "10.0.0.2", "it was silent")
START = MembershipChange(0, 1, 100.0, 0, 2, "", None, None, 1)
JOINED = MembershipChange(0, 2, 200.0, 2, 3, "10.0.0.1 joined", 4.5, 0, 11, 1, came=(B,))
LOST = MembershipChange(0, 3, 300.0, 3, 2, "10.0.0.2 is gone", 7.25, 3, 18, 2, lost=(C,))
NO_STEP = MembershipChange(0, 4, 400.0, 2, 1, "10.0.0.1 is leaving", None, None, left=(B,))
AFTER = MembershipChange(0, 5, 405.0, 1, 2, "10.0.0.1 joined", 9.0, 0, 30, 3, came=(B,))
NOTED = MembershipChange(
    0, 6, 500.0, 2, 1, "10.0.0.1 is gone", 6.0, 2, 40, 5, exact=False, lost=(B,)
)


def when(at: float) -> str:
    return f"at {at:g}"


def lines(*found: MembershipChange, most: int = 20) -> list[str]:
    return list(elastic_costs.format_lines(found, most, when))


def test_a_change_says_who_came_and_went_and_what_it_cost() -> None:
    cost = [f"without a step: {s} s; steps done again: {n}" for s, n in ((4.5, 0), (7.2, 3))]

    assert lines(START, JOINED, LOST) == [
        "  changes of nodes: 2; without a step: 11.8 s; steps done again: 3",
        "  task 0 generation 1, at 100, 2 nodes",
        f"  task 0 generation 2, at 200, 2 to 3 nodes: came node 1 (10.0.0.1); {cost[0]}",
        f"  task 0 generation 3, at 300, 3 to 2 nodes: lost node 2 ({C.host}, {C.why}); {cost[1]}",
    ]


def test_where_nobody_came_or_went_the_reason_is_told() -> None:
    failed = JOINED._replace(came=(), before=3, why="the program of 10.0.0.1 ended with 1")

    assert "3 to 3 nodes: the program of 10.0.0.1 ended with 1;" in lines(START, failed)[-1]


def test_a_change_without_a_step_is_counted_with_the_next_one() -> None:
    """Its seconds are among those of the next one: so it is neither unknown nor counted twice."""
    found = elastic_costs.sum_costs([START, JOINED, LOST, NO_STEP, AFTER])

    assert found == elastic_costs.Total(4, 20.75, 0, 3, 0, True)
    assert "without a step: with the next one's" in lines(START, NO_STEP, AFTER)[2]


def test_unknown_costs_are_shown_as_unknown() -> None:
    assert elastic_costs.sum_costs([START, NO_STEP])[1:] == (None, 3, None, 3, True)
    assert lines(START, NO_STEP)[0].endswith(
        "without a step: not known; steps done again: not known"
    )
    assert lines(START, JOINED, LOST, NO_STEP)[0] == (
        "  changes of nodes: 3; without a step: 11.8 s (not known for 1 of them); "
        "steps done again: 3 (not known for 1 of them)"
    )


def test_seconds_that_no_step_has_ended_are_nobodys_yet() -> None:
    """Neither change has a step after it; or has one, but clocks that disagree."""
    again = NO_STEP._replace(generation=5)
    unclear = AFTER._replace(gap_s=None)

    assert elastic_costs.sum_costs([START, JOINED, LOST, NO_STEP, again])[:3] == (4, 11.75, 2)
    assert elastic_costs.sum_costs([START, JOINED, LOST, NO_STEP, unclear])[:3] == (4, 11.75, 2)


def test_a_step_that_the_first_node_took_with_it_leaves_its_change_unknown() -> None:
    """It was lost between that step and writing it down: the seconds of the next change begin later."""
    after = AFTER._replace(since=4)

    assert elastic_costs.sum_costs([START, JOINED, LOST, NO_STEP, after])[:3] == (4, 20.75, 1)
    assert "without a step: not known" in lines(START, NO_STEP, after)[2]


def test_a_program_that_tells_no_steps_has_seconds_alone() -> None:
    silent = JOINED._replace(lost_steps=None, first_step=None)

    assert elastic_costs.sum_costs(
        [START, silent, silent._replace(generation=3)]
    ) == elastic_costs.Total(2, 9.0, 0, None, 2, True)


def test_costs_recorded_before_the_end_are_bounds() -> None:
    assert lines(START, NOTED)[-1].endswith(
        "without a step: at most 6 s; steps done again: at least 2"
    )
    second = NOTED._replace(generation=2, since=1)
    assert "at most 6.0 s; steps done again: at least 2" in lines(START, second)[0]


def test_generations_that_nobody_wrote_down_count() -> None:
    """The fourth was over at once, and the fifth has its seconds; of what was before the third, nothing was read."""
    assert elastic_costs.sum_costs([START, JOINED, LOST, AFTER])[:3] == (4, 20.75, 0)
    assert elastic_costs.sum_costs([START, JOINED, AFTER])[:3] == (4, 13.5, 1)
    assert elastic_costs.sum_costs([LOST, AFTER])[:3] == (4, 16.25, 1)


def test_tasks_are_added_up_each_for_itself() -> None:
    """That a step follows in another task says nothing of this one."""
    other, waits = [one._replace(task=1) for one in (START, JOINED)], NO_STEP._replace(generation=3)

    assert elastic_costs.sum_costs([START, JOINED, waits, *other]) == elastic_costs.Total(
        3, 9.0, 1, 0, 1, True
    )


def test_a_job_that_stays_as_it_began_has_no_changes() -> None:
    assert lines(START) == ["  task 0 generation 1, at 100, 2 nodes"]
    assert dict(list_changes_facts([START])) == {"changes of nodes": "0"}
    assert lines() == []


def test_only_the_last_changes_are_listed_and_all_are_summed() -> None:
    found = [START, *(JOINED._replace(generation=n) for n in range(2, 52))]

    told = lines(*found, most=3)

    assert told[0].startswith("  changes of nodes: 50; without a step: 225.0 s")
    assert [line[:22] for line in told[2:]] == [
        f"  task 0 generation {n}"[:22] for n in (49, 50, 51)
    ]


def test_many_nodes_at_once_are_counted() -> None:
    many = JOINED._replace(came=tuple(NodeRef(n, f"h{n}") for n in range(300)))

    assert elastic_costs.describe_nodes(many).endswith("node 7 (h7) and 292 more")


def test_a_table_and_a_page_have_each_change() -> None:
    found = [START, JOINED, LOST]

    page = "\n".join(draw_changes(found, "", when))

    assert make_changes_table(found, when).rows[2] == (
        *(0, 3, "at 300", "3 to 2", 7.25, 3),
        "lost node 2 (10.0.0.2, it was silent)",
    )
    assert "lost node 2 (10.0.0.2, it was silent)" in page and "11.8 s" in page
    assert "not known: no answer" in "".join(draw_changes((), "no answer", when))


def test_nothing_that_a_node_says_becomes_html() -> None:
    page = "".join(draw_changes([LOST._replace(lost=(NodeRef(1, "<b>", "<i>"),))], "", when))

    assert "<b>" not in page and "<i>" not in page


def test_records_are_read_in_order() -> None:
    found = changes_of(
        [
            (1, record(2, gap_s=None)),
            (0, record(10, gap_s=None)),
            (0, record(9)),
        ]
    )

    assert [(one.task, one.generation, one.gap_s) for one in found] == [
        *((0, 9, 1.5), (0, 10, None), (1, 2, None))
    ]
    assert found[2].came == (NodeRef(1, "h"),) and found[2].lost == (
        NodeRef(2, "i", "it was silent"),
    )
    assert elastic_costs.write_change(found[2])["lost"] == [
        {"node": 2, "host": "i", "why": "it was silent"}
    ]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"generation": 2}'])
def test_an_unreadable_record_of_a_change_is_an_error(content: bytes) -> None:
    """A sum without it would be wrong, and nobody would know."""
    with pytest.raises(RemoteError, match="the record of a change cannot be read"):
        changes_of([(0, record(1)), (0, content)])
