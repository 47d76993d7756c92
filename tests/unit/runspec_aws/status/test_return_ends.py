"""How elastic runs end of which nodes have come back."""

from __future__ import annotations

from typing import Any

import pytest
from moto.batch.models import batch_backends

from runspec_aws.reasons import GIVEN_UP
from runspec_aws.status import jobs
from runspec_aws.status.nodes import CANCELLED
from runspec_aws.status.returns import BEFORE
from runspec_jobs.engine.apply import fill_request
from runspec_jobs.provider import Request, State
from runspec_jobs.provider.elastic_tasks import NOT_NEEDED
from tests.support.aws.elastic_pair import RUN, Pair, pair as pair
from tests.support.aws.moto_account import ACCOUNT, REGION, moto_account
from tests.support.aws.specs import spec


@pytest.mark.parametrize("submitted", [True, False])
def test_a_run_succeeds_while_a_node_that_comes_back_waits_for_a_machine(
    pair: Pair, submitted: bool
) -> None:
    if submitted:
        pair.account.jobs[pair.come()].status = "RUNNABLE"
    else:
        pair.client.files.put_new(b"", "runs", RUN, "returned", "1-1")
        pair.client.files.remove(pair.client.files.key("runs", RUN, "released", "1"))
    pair.finish()
    assert pair.new_client().state(RUN).state is State.WAITING

    pair.new_client().reconcile(RUN)
    for job in pair.own().values():
        job.status, job.job_stopped_reason = "FAILED", NOT_NEEDED

    found = pair.new_client().state(RUN)
    assert (found.state, found.exit_code, found.nodes[1].reason) == (State.SUCCEEDED, 0, NOT_NEEDED)


def test_a_sweep_with_a_stopped_task_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_ENDED", 1)  # moto has no TerminateJobs
    fields: dict[str, Any] = {"cluster": {"nodes": {"min": 1, "max": 2}}, "sweep": {"rate": [1, 2]}}
    with moto_account(monkeypatch) as account:
        pair = Pair(account, spec(**fields))
        pair.end(pair.come(), 0, "program", number=2)
        pair.new_client().stop(RUN, [1])
        for child in (f"{pair.array}:2", f"{pair.array}:3"):
            account.jobs[child].status = "FAILED"
            account.jobs[child].job_stopped_reason = CANCELLED
        pair.finish()

        found = pair.new_client().state(RUN)

    assert (found.state, found.exit_code) == (State.SUCCEEDED, 0)


def test_a_run_is_cancelled_with_the_nodes_that_have_come_back(pair: Pair) -> None:
    """Its array has ended by itself before, as all of its nodes were released in turn."""
    pair.account.jobs[job := pair.come()].status = "RUNNING"
    pair.release([(0, 0)])
    pair.end(f"{pair.array}:0", 143, "released")

    pair.new_client().cancel(RUN)
    pair.account.jobs[job].status = "FAILED"
    pair.account.jobs[job].job_stopped_reason = CANCELLED

    assert pair.account.ended() == [job]
    assert pair.new_client().state(RUN).state is State.CANCELLED


def test_a_run_that_is_cancelled_after_it_has_failed_has_failed(pair: Pair) -> None:
    pair.claim(job := pair.come())
    pair.end(job, 3, "program", number=2, status="FAILED")
    pair.end(f"{pair.array}:0", 3, "program", status="FAILED")

    pair.new_client().cancel(RUN)

    found = pair.new_client().state(RUN)
    assert (found.state, found.exit_code) == (State.FAILED, 3)


def test_a_second_job_of_a_node_that_is_not_shown_yet_never_runs_after_a_cancel(pair: Pair) -> None:
    pair.account.jobs[job := pair.come()].status = "RUNNABLE"

    pair.new_client().cancel(RUN)

    assert job in pair.account.ended()
    assert pair.client.files.read("runs", RUN, "returned", "1-1.claim") == b"cancelled"


def forget_array(pair: Pair, job: str) -> None:
    """Have the service forget all jobs but *job*, as it may seven days after their end."""
    for name in [each for each in pair.account.jobs if each != job]:
        del batch_backends[ACCOUNT][REGION]._jobs[name]
    pair.client = pair.new_client()
    pair.client.remember(RUN, pair.answers)


def test_a_run_goes_on_although_the_service_has_forgotten_its_array(pair: Pair) -> None:
    ours = pair.account.jobs[job := pair.come()]
    ours.status, ours.attempts = "RUNNING", []
    pair.release([(0, 0)])
    pair.end(f"{pair.array}:0", 143, "released")
    forget_array(pair, job)

    found = pair.client.state(RUN)

    assert found.state is State.RUNNING
    assert [(node.rank, node.attempt) for node in found.nodes] == [(1, 2)]
    assert pair.client.jobs.alive() == {RUN}


def test_a_node_comes_back_although_the_service_has_forgotten_its_job(pair: Pair) -> None:
    pair.account.jobs[job := pair.come()].status = "RUNNING"
    pair.release([(0, 0)])
    pair.end(f"{pair.array}:0", 143, "released")
    forget_array(pair, job)

    assert pair.release([], [(0, 0)]) == (set(), set(), "")

    (came,) = (each for name, each in pair.own().items() if name != job)
    variables = {v["name"]: v["value"] for v in came.container_overrides["environment"]}
    assert (came.job_name, variables[BEFORE]) == (f"{RUN}_0_1", "1")


def test_a_node_whose_job_never_started_says_why_and_not_how_it_left_before(pair: Pair) -> None:
    ours = pair.account.jobs[pair.come()]
    ours.status, ours.attempts = "FAILED", []
    ours.job_stopped_reason = GIVEN_UP + "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"

    node = pair.nodes()[1]

    assert node.state is State.FAILED
    assert (node.exit_code, node.reason[:24]) == (None, "max_queue_wait has passed"[:24])
    assert [attempt.exit_code for attempt in node.attempts] == [143]


@pytest.mark.parametrize(("status", "waits"), [("PENDING", True), ("RUNNABLE", False)])
def test_a_node_that_comes_back_waits_for_the_jobs_that_its_array_waits_for(
    pair: Pair, status: str, waits: bool
) -> None:
    """The service may have forgotten those that have ended."""
    pair.account.jobs[f"{pair.array}:0"].status = status
    pair.account.jobs[f"{pair.array}:1"].status = "FAILED"  # it was terminated while it waited
    parent = pair.client.call(
        fill_request(pair.account.plan(spec(), "m-abc123")["job"].do, pair.answers)
    )
    plain = pair.submits

    def submits(operation: str) -> list[Request]:
        needs = {"dependsOn": [{"jobId": parent["jobId"]}]} if operation == "submit_job" else {}
        return [each._replace(params={**each.params, **needs}) for each in plain(operation)]

    pair.client.release(RUN, [], [(0, 1)], submits)

    (job,) = pair.own().values()
    assert [need["jobId"] for need in job.depends_on or ()] == [parent["jobId"]] * waits
