"""Arrays and multi-node jobs: one request, many containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulators.aws.stand import GROUP, Stand, container, until

pytestmark = pytest.mark.process

Make = Callable[..., Stand]


def children(stand: Stand, status: str, **parent: str) -> list[Any]:
    return list(stand.batch.list_jobs(jobStatus=status, **parent)["jobSummaryList"])


def array(stand: Stand, script: str, size: int = 3, **more: Any) -> str:
    return stand.sh(script, arrayProperties={"size": size}, **more)


# Arrays


def test_every_child_of_an_array_runs_with_its_index(shared: Stand) -> None:
    parent = array(shared, "echo $AWS_BATCH_JOB_ARRAY_INDEX of $AWS_BATCH_JOB_ARRAY_SIZE")

    ended = shared.end(parent)

    ids = [job["jobId"] for job in children(shared, "SUCCEEDED", arrayJobId=parent)]
    assert ids == [f"{parent}:{i}" for i in range(3)]
    assert [shared.lines(shared.job(i)) for i in ids] == [["0 of 3"], ["1 of 3"], ["2 of 3"]]
    assert [shared.job(i)["arrayProperties"]["index"] for i in ids] == [0, 1, 2]
    assert ended["status"] == "SUCCEEDED"
    assert ended["arrayProperties"]["size"] == 3
    assert Counter(ended["arrayProperties"]["statusSummary"])["SUCCEEDED"] == 3


def test_an_array_is_pending_until_all_have_ended_and_fails_with_any(shared: Stand) -> None:
    script = 'test "$AWS_BATCH_JOB_ARRAY_INDEX" = 0 && exit 1; sleep 0.3'
    parent = array(shared, script)
    until(lambda: children(shared, "FAILED", arrayJobId=parent))

    assert shared.job(parent)["status"] == "PENDING"
    ended = shared.end(parent)

    summary = ended["arrayProperties"]["statusSummary"]
    assert (ended["status"], summary["FAILED"], summary["SUCCEEDED"]) == ("FAILED", 1, 2)


def test_ending_an_array_ends_its_children(shared: Stand) -> None:
    parent = array(shared, "sleep 60")
    shared.reach(f"{parent}:2", "RUNNING")

    shared.batch.terminate_job(jobId=parent, reason="no more")

    assert shared.end(parent)["statusReason"] == "no more"
    assert len(children(shared, "FAILED", arrayJobId=parent)) == 3


def test_several_jobs_are_ended_by_one_request(shared: Stand) -> None:
    parent = array(shared, "sleep 60")
    for n in range(3):
        shared.reach(f"{parent}:{n}", "RUNNING")
    two = [f"{parent}:0", f"{parent}:2"]

    answer = shared.batch.terminate_jobs(jobs=[*two, "8a1bc"], reason="no more")

    assert (answer["successful"], answer["errors"]) == ([*two, "8a1bc"], [])
    assert [shared.end(name)["statusReason"] for name in two] == ["no more"] * 2
    assert shared.job(f"{parent}:1")["status"] == "RUNNING"
    shared.batch.terminate_job(jobId=parent, reason="over")


def test_a_sequential_array_runs_one_after_the_other(shared: Stand) -> None:
    parent = array(shared, "sleep 0.05", dependsOn=[{"type": "SEQUENTIAL"}])

    shared.end(parent)

    jobs = [shared.job(f"{parent}:{i}") for i in range(3)]
    assert jobs[1]["startedAt"] >= jobs[0]["stoppedAt"]
    assert jobs[2]["startedAt"] >= jobs[1]["stoppedAt"]


def test_n_to_n_waits_for_the_child_of_the_same_index(shared: Stand) -> None:
    script = 'test "$AWS_BATCH_JOB_ARRAY_INDEX" = 1 && exit 1; exit 0'
    first = array(shared, script)
    second = array(shared, ":", dependsOn=[{"jobId": first, "type": "N_TO_N"}])

    shared.end(second)

    states = [shared.job(f"{second}:{i}")["status"] for i in range(3)]
    assert states == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    with pytest.raises(ClientError, match="is not an array of 2 jobs"):
        array(shared, ":", 2, dependsOn=[{"jobId": first, "type": "N_TO_N"}])


# Multi-node jobs


def nodes(stand: Stand, script: str, count: int = 3, main: int = 0, **more: Any) -> str:
    return stand.submit(stand.define_nodes(["sh", "-c", script], count, main), **more)


def test_every_node_knows_the_others(shared: Stand) -> None:
    script = (
        "echo $AWS_BATCH_JOB_NODE_INDEX/$AWS_BATCH_JOB_NUM_NODES "
        "main $AWS_BATCH_JOB_MAIN_NODE_INDEX "
        "at ${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS-here}; sleep 60"
    )
    job_id = nodes(shared, script, main=1)
    for i in range(3):
        shared.wrote(f"{job_id}#{i}", shared_line(shared, f"{job_id}#{i}"))

    lines = [shared.lines(shared.job(f"{job_id}#{i}"))[0] for i in range(3)]
    listed = children(shared, "RUNNING", multiNodeJobId=job_id)
    shared.batch.terminate_job(jobId=job_id, reason="x")

    address = shared.job(f"{job_id}#1")["container"]["networkInterfaces"][0]["privateIpv4Address"]
    assert address.startswith("127.0.0.")
    assert lines == [
        f"0/3 main 1 at {address}",
        "1/3 main 1 at here",
        f"2/3 main 1 at {address}",
    ]
    assert [job["nodeProperties"] for job in listed] == [
        {"nodeIndex": i, "isMainNode": i == 1} for i in range(3)
    ]
    assert shared.job(job_id)["nodeProperties"]["numNodes"] == 3
    assert "container" not in shared.job(job_id)
    shared.end(job_id)


def shared_line(stand: Stand, job_id: str) -> str:
    """Wait for the first line of a running job, and give it."""
    job = stand.reach(job_id, "RUNNING")
    stream = job["container"]["logStreamName"]
    logs = stand.server.world.logs
    until(lambda: logs.has_group(GROUP) and stream in logs.group(GROUP).streams)
    return stand.lines(job)[0]


@pytest.mark.parametrize("code,status", [(0, "SUCCEEDED"), (4, "FAILED")])
def test_the_main_node_decides_and_the_others_are_ended(
    shared: Stand, code: int, status: str
) -> None:
    script = f'test "$AWS_BATCH_JOB_NODE_INDEX" = 0 || exec sleep 60; sleep 0.2; exit {code}'
    job_id = nodes(shared, script)

    job = shared.end(job_id)
    workers = [shared.end(f"{job_id}#{i}") for i in (1, 2)]

    assert job["status"] == shared.job(f"{job_id}#0")["status"] == status
    assert job["attempts"][0]["container"]["exitCode"] == code
    assert [w["container"]["exitCode"] for w in workers] == [
        137,
        137,
    ]  # process 1 without a handler


def test_a_dead_worker_changes_nothing(shared: Stand) -> None:
    script = 'test "$AWS_BATCH_JOB_NODE_INDEX" = 0 || exit 3; sleep 0.3'
    job_id = nodes(shared, script, retryStrategy={"attempts": 3})

    job = shared.end(job_id)

    assert (job["status"], len(job["attempts"])) == ("SUCCEEDED", 1)
    assert shared.job(f"{job_id}#2")["status"] == "FAILED"


def test_another_attempt_starts_every_node_again(shared: Stand) -> None:
    script = (
        'test "$AWS_BATCH_JOB_NODE_INDEX" = 0 || exec sleep 60; '
        'sleep 0.1; test "$AWS_BATCH_JOB_ATTEMPT" = 2'
    )
    job_id = nodes(shared, script, count=2, retryStrategy={"attempts": 2})

    job = shared.end(job_id)
    shared.end(f"{job_id}#1")

    assert (job["status"], len(job["attempts"])) == ("SUCCEEDED", 2)
    assert shared.truth(f"{job_id}#1")["starts"] == 2


def test_a_timeout_and_a_lost_machine_end_the_whole_job(shared: Stand) -> None:
    slow = nodes(shared, "sleep 60", timeout={"attemptDurationSeconds": 1})
    lost = nodes(shared, "sleep 60")
    shared.reach(f"{lost}#2", "RUNNING")

    shared.ask("POST", "reclaim", {"jobId": lost})

    assert shared.end(lost)["statusReason"].startswith("Host EC2")
    assert shared.end(slow)["statusReason"] == "Job attempt duration exceeded timeout"
    assert all(shared.end(f"{slow}#{i}") for i in range(3))


def test_the_number_of_nodes_can_be_overridden_where_a_range_is_open(shared: Stand) -> None:
    override = {"targetNodes": "0:", "containerOverrides": {"command": ["true"]}}
    job_id = nodes(
        shared, "exit 9", nodeOverrides={"numNodes": 5, "nodePropertyOverrides": [override]}
    )

    job = shared.end(job_id)

    assert (job["nodeProperties"]["numNodes"], job["status"]) == (5, "SUCCEEDED")


def test_overrides_of_nodes_are_checked(shared: Stand) -> None:
    closed = {"numNodes": 2, "mainNode": 0}
    groups = [{"targetNodes": "0:1", "container": container([":"])}]
    shared.batch.register_job_definition(
        jobDefinitionName="closed",
        type="multinode",
        nodeProperties={**closed, "nodeRangeProperties": groups},
    )
    strange = [{"targetNodes": "0:0"}]

    with pytest.raises(ClientError, match="no upper boundary"):
        shared.submit("closed", nodeOverrides={"numNodes": 3})
    with pytest.raises(ClientError, match="Non matching targets - 0:0"):
        shared.submit("closed", nodeOverrides={"nodePropertyOverrides": strange})
    with pytest.raises(ClientError, match="mainNode 2 is not among 2"):
        nodes(shared, ":", main=2, nodeOverrides={"numNodes": 2})


def test_the_narrowest_range_of_nodes_counts(shared: Stand) -> None:
    groups = [("0:", "wide"), ("1:1", "narrow")]
    shared.batch.register_job_definition(
        jobDefinitionName="nested",
        type="multinode",
        nodeProperties={
            "numNodes": 3,
            "mainNode": 1,
            "nodeRangeProperties": [
                {"targetNodes": t, "container": container(["echo", word])} for t, word in groups
            ],
        },
    )

    job_id = shared.submit("nested")
    shared.end(job_id)

    assert shared.lines(shared.job(f"{job_id}#1")) == ["narrow"]


def test_multi_node_jobs_are_refused_on_fargate(make: Make) -> None:
    stand = make()
    fargate = {"type": "FARGATE", "maxvCpus": 4, "subnets": ["s"], "securityGroupIds": ["g"]}
    stand.batch.create_compute_environment(
        computeEnvironmentName="ce", type="MANAGED", computeResources=fargate
    )
    until(lambda: stand.server.world.environments["ce"].status == "VALID")
    stand.queue()

    with pytest.raises(ClientError, match="not supported on FARGATE"):
        nodes(stand, ":")
