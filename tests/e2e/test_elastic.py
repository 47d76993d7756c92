"""Nodes that come and go while a job runs, really: what it computes is what one node alone would have computed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runspec_agent.elastic.policy import IDLE
from tests.support.agent.elastic_nodes import Elastic, accounted, fixed, sgd, went
from tests.support.root import ROOT

pytestmark = pytest.mark.slow

STEPS = 2000


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Elastic]:
    """A job of one to four nodes, none of which has been started."""
    found = Elastic(tmp_path, sgd(tmp_path, STEPS, 0.05), 1, 4)
    yield found
    found.close()


def finish(job: Elastic, *seats: int) -> list[int]:
    """Let the program run to its end as fast as it can; give what the nodes end with."""
    (job.folder / "pace").write_text("0")
    return [job.ended(seat) for seat in seats]


def compare(job: Elastic) -> None:
    """Hold what was kept against one process that was never disturbed."""
    found = json.loads((job.kept() / "state.json").read_text())
    alone = fixed(job.folder, sgd(job.folder, STEPS, 0), {})

    assert found["losses"] == pytest.approx(alone["losses"], abs=1e-4)
    assert found["samples"] == alone["samples"]  # none is lost, or seen twice
    assert len(found["losses"]) == STEPS


def test_an_elastic_job_computes_the_same_whatever_happens_to_its_nodes(made: Elastic) -> None:
    """Added, killed, the first one killed, cut off in silence, told to go, added again, all killed and one back."""
    made.start(0)
    made.run_with(0)
    made.start(1, 2)
    made.run_with(0, 1, 2)
    made.kill(2)  # not the first
    made.run_with(0, 1)
    made.start(2)
    made.run_with(0, 1, 2)
    made.kill(0)  # the first: its place is taken
    made.run_with(1, 2)
    made.start(0)
    made.run_with(1, 2, 0)
    made.freeze(2)  # nothing ends, nothing answers
    made.run_with(0, 1)
    frozen = made.nodes.pop(2)
    made.tell(1, signal.SIGTERM)  # the first again
    assert made.ended(1) == 143
    made.run_with(0)
    made.start(3)
    made.run_with(0, 3)
    made.kill(0)
    made.kill(3)
    made.start(1)
    made.run_with(1)
    made.nodes[2] = frozen
    made.freeze(2, signal.SIGCONT)  # it finds out that it is none of them, and comes back as one
    made.run_with(1, 2)

    codes = finish(made, 1, 2)

    assert codes == [0, 0]
    compare(made)
    changes = made.changes()
    hosts = [tuple(host.rpartition(".")[2] for host in c["hosts"]) for c in changes]
    assert hosts == [
        *(("1",), ("1", "2", "3"), ("1", "2"), ("1", "2", "3"), ("2", "3"), ("2", "3", "1")),
        *(("2", "1"), ("1",), ("1", "4"), ("2",), ("2", "3")),
    ]
    accounted(changes)
    assert [node for node, _ in went(changes, "lost")] == [2, 0, 2, 0, 3]
    assert went(changes, "left") == [(1, "told to end")]
    lost = [c["lost_steps"] for c in changes]
    assert (
        lost[1:3] == [0, 0] and lost[7] == 0 and lost[8] == 0
    )  # where a signal came, or the first one stays
    assert all(count <= 21 for count in lost[1:])  # it saves every 20 steps


def test_a_schedule_of_nodes_that_come_and_go_as_told_loses_no_step(made: Elastic) -> None:
    """That of docs/elastic-costs.md with fewer machines: one stays, and the others are told before they go."""
    events = yaml.safe_load((ROOT / "docs/traces/dynamic-training.yaml").read_text())["events"]
    wanted = [1 + 3 * one["nodes"] // 11 for one in events if one["pool"] == "wave"]
    made.start(0)
    made.run_with(0)
    sizes = [1]

    for size in wanted:
        there = sorted(made.nodes)
        if size > len(there):
            made.start(*range(len(there), size))
            made.run_with(*range(size))
            sizes.append(size)
        for seat in reversed(there[size:]):
            made.tell(seat, signal.SIGTERM)
            assert made.ended(seat) == 143
            made.run_with(*range(seat))
            sizes.append(seat)
    codes = finish(made, *sorted(made.nodes))

    assert sizes == [1, 2, 4, 3, 2, 1, 2] and codes == [0, 0]
    compare(made)
    changes = made.changes()
    assert [one["nodes"] for one in changes] == sizes
    accounted(changes)
    assert went(changes, "lost") == []


def test_a_node_that_starts_after_the_end_runs_no_program(made: Elastic) -> None:
    """The job is over: a node that starts then leaves at once, and begins no program."""
    made.start(0)
    made.run_with(0)
    assert finish(made, 0) == [0]

    made.start(1)

    assert made.ended(1) == 0
    assert "has nothing to do" in made.said(1)
    assert "generation" not in made.said(1)


def test_an_elastic_job_waits_for_its_minimum_of_nodes(tmp_path: Path) -> None:
    """One of at least two runs nothing; two do, and when one goes the other stops."""
    job = Elastic(tmp_path, sgd(tmp_path, STEPS, 0.05), 2, 3)
    try:
        job.start(0)
        job.until(lambda: job.state().get("phase") == "forming", "it forms")
        job.start(1)
        job.run_with(0, 1)
        assert [c["nodes"] for c in job.changes()] == [2]
        job.kill(1)
        job.until(lambda: job.state()["phase"] == "forming", "it stops")
        job.start(1)
        job.run_with(0, 1)
        assert finish(job, 0, 1) == [0, 0]
        compare(job)
    finally:
        job.close()


@pytest.mark.parametrize(("attempts", "generations"), [(1, 1), (3, 3)])
def test_a_program_that_fails_is_tried_as_often_as_the_spec_says(
    tmp_path: Path, attempts: int, generations: int
) -> None:
    """Then all nodes end with its code, so that nobody tries them again."""
    job = Elastic(tmp_path, ["sh", "-c", "sleep 0.3; exit 7"], 1, 2, attempts=attempts)
    try:
        job.start(0, 1)
        assert [job.ended(0), job.ended(1)] == [7, 7]
        assert len(job.changes()) == generations
    finally:
        job.close()


ENDS = """\
read -r done < "$RUNSPEC_OUTPUT_OUT/done" || done=0
[ "$done" -lt 14 ] || exit 0
echo $((done + 1)) > "$RUNSPEC_OUTPUT_OUT/done"
[ "$1" = silent ] || echo $((done + 1)) >> "$RUNSPEC_PROGRESS"
exit 143
"""


@pytest.mark.parametrize(
    ("what", "code", "generations"), [("silent", 1, IDLE), ("progress", 0, 15)]
)
def test_a_program_that_begins_again_each_time_has_to_get_on(
    tmp_path: Path, what: str, code: int, generations: int
) -> None:
    """It ends with 143 each time. What it saves does not count, for so does the log of one that gets nowhere."""
    job = Elastic(tmp_path, ["sh", "-c", ENDS, "sh", what], 1, 1)
    try:
        job.start(0)
        assert job.ended(0) == code
        assert len(job.changes()) == generations
        assert ("without progress" in job.state()["why"]) == bool(code)
    finally:
        job.close()
