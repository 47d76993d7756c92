"""Nodes of elastic jobs come back as jobs of their own, which are in the status, the logs and the end of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runspec_aws.client import AwsClient
from runspec_aws.status.nodes import CANCELLED, Place
from runspec_aws.status.returns import BEFORE
from runspec_jobs.provider import Request, State
from runspec_jobs.provider.elastic_tasks import OTHER_VERSION
from runspec_jobs.provider.node_ends import AWAY
from tests.support.aws.elastic_pair import AT_ONCE, RUN, Pair, pair as pair


def test_a_node_that_comes_back_is_a_job_of_its_own_and_counts_its_attempts_on(pair: Pair) -> None:
    assert [n.reason for n in pair.nodes()] == ["", AWAY]

    name = pair.come()

    job = pair.own()[name]
    assert (job.job_name, job.job_queue.name) == (f"{RUN}_1_1", "queue")
    variables = {v["name"]: v["value"] for v in job.container_overrides["environment"]}
    claim = {"RUNSPEC_CLAIM": "returned/1-1.claim", "RUNSPEC_INDEX": "1"}
    assert variables == {"RUNSPEC_RUN": RUN, **claim, BEFORE: "1"}
    assert not pair.client.files.names(f"runs/{RUN}/released/")
    job.status, job.attempts = "RUNNING", []
    node = pair.nodes()[1]
    assert (node.state, node.attempt, len(node.attempts)) == (State.RUNNING, 2, 1)


def test_a_repeated_request_submits_nothing_more_here_and_elsewhere(pair: Pair) -> None:
    job = pair.come()

    again = pair.release([], [(0, 1)])
    pair.client = pair.new_client()
    elsewhere = pair.release([], [(0, 1)])

    assert again == elsewhere == (set(), set(), "")
    assert list(pair.own()) == [job]


def test_a_job_that_was_announced_and_not_submitted_is_awaited_and_submitted_once(
    pair: Pair,
) -> None:
    """A command was killed in between; another machine goes on."""
    pair.client.files.put_new(b"", "runs", RUN, "returned", "1-1")
    pair.client.files.remove(pair.client.files.key("runs", RUN, "released", "1"))
    node = pair.nodes()[1]
    assert node.state is State.WAITING and "ask for the same number of nodes again" in node.reason

    pair.client = pair.new_client()
    assert set(pair.release([]).away) == {(0, 1)}
    pair.come()

    assert [job.job_name for job in pair.own().values()] == [f"{RUN}_1_1"]
    assert pair.release([]).away == set()


def test_a_new_job_that_lists_do_not_show_yet_is_waited_for(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to its request was lost, and the same command is repeated."""
    job = pair.come()
    pair.client = AwsClient(pair.account.options, replace(AT_ONCE, settle_s=60.0, poll_s=0.0))
    listed, looks = pair.client.jobs.listed_as, iter(range(10))
    late = lambda queue, **how: listed(queue, **how) if next(looks) > 2 else iter(())  # noqa: E731
    monkeypatch.setattr(pair.client.jobs, "listed_as", late)
    pair.client.jobs.remember(RUN, pair.array)

    pair.release([], [(0, 1)])

    assert list(pair.own()) == [job] and next(looks) > 3


def test_of_two_jobs_of_a_name_the_one_that_has_claimed_it_counts_and_the_other_is_ended(
    pair: Pair,
) -> None:
    """The reply to the first request was lost, and the lists did not have its job for a long time."""
    first = pair.come()
    params = pair.submits("submit_job")[0].params
    params = {k: v for k, v in params.items() if k != "arrayProperties"}
    second = pair.client.call(Request("batch", "submit_job", {**params, "jobName": f"{RUN}_1_1"}))
    pair.account.jobs[second["jobId"]].status = "RUNNING"
    pair.account.jobs[first].status = "RUNNABLE"
    pair.claim(second["jobId"])

    client = pair.new_client()
    assert client.state(RUN).nodes[1].state is State.RUNNING
    client.reconcile(RUN)

    assert pair.account.ended() == [first]


def test_a_node_may_leave_and_come_back_again_and_a_hidden_job_of_its_name_never_runs(
    pair: Pair,
) -> None:
    """It waits for a machine when it is released: its job is terminated, and no other one may claim its name."""
    pair.account.jobs[job := pair.come()].status = "RUNNABLE"

    assert pair.release([(0, 1)]).leaving == {(0, 1)}
    assert pair.account.ended() == [job]
    pair.account.jobs[job].status = "FAILED"
    assert [n.reason for n in pair.nodes()] == ["", AWAY]
    pair.come()

    assert [job.job_name for job in pair.own().values()] == [f"{RUN}_1_1", f"{RUN}_1_2"]
    assert pair.client.files.read("runs", RUN, "returned", "1-1.claim") == b"cancelled"


def test_a_node_whose_job_has_begun_meanwhile_does_not_come_back_yet(pair: Pair) -> None:
    """A second job of its name, which was not shown, has claimed it after the first was terminated."""
    job = pair.come()
    pair.release([(0, 1)])
    pair.account.jobs[job].status = "FAILED"
    pair.client.release(RUN, [(0, 1)], [], pair.submits)
    put_new = pair.client.files.put_new

    def claimed(content: bytes, *parts: str) -> bool:
        if parts[-1] == "1-1.claim":
            pair.claim("another")
        return put_new(content, *parts)

    pair.client.files.put_new = claimed  # type: ignore[method-assign]

    stuck = pair.release([], [(0, 1)])

    assert (set(stuck.away), set(stuck.leaving)) == ({(0, 1)}, {(0, 1)})
    assert list(pair.own()) == [job]


@pytest.mark.parametrize(
    ("code", "cause", "status", "state"),
    [(0, "program", "SUCCEEDED", State.SUCCEEDED), (3, "program", "FAILED", State.FAILED)],
)
def test_a_run_goes_on_with_the_nodes_that_came_back_when_its_array_has_ended(
    pair: Pair, code: int, cause: str, status: str, state: State
) -> None:
    job = pair.come()
    pair.account.jobs[job].status = "RUNNING"
    pair.release([(0, 0)])
    pair.end(f"{pair.array}:0", 143, "released")
    assert pair.new_client().state(RUN).state is State.RUNNING

    pair.end(job, code, cause, number=2, status=status)

    found = pair.new_client().state(RUN)
    assert found.state is state
    assert found.nodes[0].reason == AWAY
    assert [(a.number, a.exit_code) for a in found.nodes[1].attempts] == [(1, 143), (2, code)]


def test_cancel_ends_nodes_that_came_back_and_forbids_those_that_are_awaited(pair: Pair) -> None:
    pair.account.jobs[job := pair.come()].status = "RUNNABLE"
    pair.client.files.put_new(b"", "runs", RUN, "returned", "0-1")

    pair.new_client().cancel(RUN)

    assert {job, pair.array} <= set(pair.account.ended())
    assert pair.client.files.read("runs", RUN, "returned", "0-1.claim") == b"cancelled"


def test_a_run_that_another_machine_cancels_gets_no_node_back(pair: Pair) -> None:
    """All that runs of it may have come back: its array has ended before, and says nothing of that."""
    pair.new_client().cancel(RUN)
    pair.end(f"{pair.array}:0", 143, "stopped")

    pair.release([], [(0, 1)])

    assert not pair.own()
    assert pair.client.files.read("runs", RUN, "returned", "1-1.claim") == b"cancelled"
    assert pair.new_client().state(RUN).state is State.CANCELLED


def test_reconcile_ends_a_node_that_came_back_after_a_cancel(pair: Pair) -> None:
    job = pair.come()
    pair.account.jobs[job].status = "RUNNING"
    array = pair.account.jobs[pair.array]
    array.status, array.job_stopped_reason = "FAILED", CANCELLED
    assert pair.new_client().state(RUN).state is State.RUNNING

    pair.new_client().reconcile(RUN)

    assert pair.account.ended() == [job]


def test_the_log_of_a_node_has_all_of_its_jobs(pair: Pair) -> None:
    job = pair.come()
    pair.end(job, 0, "program", number=2)

    streams = pair.new_client().streams(RUN)

    names = [attempt.name for attempt in streams[-1].attempts]  # type: ignore[attr-defined]
    assert names[:2] == [
        f"{pair.array}:1",
        job,
    ]  # moto has one more, of a container that it made up


def test_a_job_of_a_node_keeps_its_run_alive_for_gc(pair: Pair) -> None:
    pair.account.jobs[pair.array].status = "SUCCEEDED"
    for rank in range(2):
        pair.account.jobs[f"{pair.array}:{rank}"].status = "SUCCEEDED"
    pair.account.jobs[pair.come()].status = "RUNNING"

    assert pair.client.jobs.alive() == {RUN}


def test_nodes_with_the_agent_of_another_version_do_not_come_back(pair: Pair) -> None:
    pair.answers = {**pair.answers}
    asked = pair.submits("register_job_definition")
    asked[0].params["containerProperties"]["environment"][:] = []

    found = pair.client.release(RUN, [], [], lambda operation: asked)

    assert found.never_back == OTHER_VERSION


def test_descriptions_that_are_known_are_asked_for_only_when_they_are_to_be_new(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.come()
    places = pair.client.jobs.returns.seat(
        RUN, [Place(0, rank, f"{pair.array}:{rank}") for rank in (0, 1)]
    )
    asked: list[bool] = []

    def describe(ids: object, *, anew: bool = False) -> dict[str, Any]:
        asked.append(anew)
        return {}

    monkeypatch.setattr(pair.client.jobs.poller, "describe", describe)

    pair.client.jobs.returns.describe(places)
    pair.client.jobs.returns.describe(places, anew=True)

    assert asked == [False, True]
