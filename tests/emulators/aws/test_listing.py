"""Lists and descriptions: what is seen, in which order, and how late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulators.aws.stand import Stand, until

pytestmark = pytest.mark.process

Make = Callable[..., Stand]


def named(stand: Stand, pattern: str, **more: Any) -> list[str]:
    rule = [{"name": "JOB_NAME", "values": [pattern]}]
    page = stand.batch.list_jobs(jobQueue="queue", filters=rule, **more)
    return [job["jobName"] for job in page["jobSummaryList"]]


def test_names_are_found_in_any_case_and_state_newest_first(stand: Stand) -> None:
    definition = stand.define([":"])
    for name in ("test1", "Test1", "test10", "other"):
        stand.end(stand.submit(definition, name))

    assert named(stand, "TEST1") == ["Test1", "test1"]
    assert named(stand, "test1*") == ["test10", "Test1", "test1"]
    assert named(stand, "test1", jobStatus="RUNNING") == ["Test1", "test1"]


def test_a_list_without_a_status_shows_what_runs(stand: Stand) -> None:
    stand.end(stand.sh(":"))
    running = stand.sh("sleep 60")
    stand.reach(running, "RUNNING")

    def ids(**more: Any) -> list[str]:
        listed = stand.batch.list_jobs(jobQueue="queue", **more)["jobSummaryList"]
        return [job["jobId"] for job in listed]

    assert ids() == [running]
    assert len(ids(jobStatus="SUCCEEDED")) == 1


def test_a_list_comes_in_pages_of_a_hundred(make: Make) -> None:
    stand = make(capacity="none").ready()
    definition = stand.define([":"])
    for n in range(205):
        stand.submit(definition, f"job-{n}")
    rule = [{"name": "JOB_NAME", "values": ["job-*"]}]

    pages = [
        page["jobSummaryList"]
        for page in stand.batch.get_paginator("list_jobs").paginate(jobQueue="queue", filters=rule)
    ]

    assert [len(page) for page in pages] == [100, 100, 5]
    names = [job["jobName"] for page in pages for job in page]
    assert names == [f"job-{n}" for n in reversed(range(205))]


def test_jobs_are_found_by_definition_and_age(stand: Stand) -> None:
    first = stand.end(stand.submit(stand.define([":"], "jd1")))
    stand.end(stand.submit(stand.define([":"], "jd1A")))
    arn = first["jobDefinition"]

    def count(name: str, value: str) -> int:
        rule = [{"name": name, "values": [value]}]
        return len(stand.batch.list_jobs(jobQueue="queue", filters=rule)["jobSummaryList"])

    assert [count("JOB_DEFINITION", v) for v in ("jd1", "jd1*", "JD1", arn)] == [1, 2, 0, 1]
    assert count("AFTER_CREATED_AT", "0") == 2
    assert count("BEFORE_CREATED_AT", "1") == 0


def test_lists_and_descriptions_lag_behind(make: Make) -> None:
    stand = make(list_lag_s=600.0, describe_lag_s=600.0).ready()

    job_id = stand.sh(":")

    assert named(stand, "job") == []
    assert stand.batch.describe_jobs(jobs=[job_id])["jobs"] == []
    stand.set(describe_lag_s=0.0)
    assert [job["jobId"] for job in stand.batch.describe_jobs(jobs=[job_id])["jobs"]] == [job_id]
    assert named(stand, "job") == []
    stand.set(list_lag_s=0.05)
    assert until(lambda: named(stand, "job")) == ["job"]
    assert stand.truth(job_id)["name"] == "job"


def test_finished_jobs_are_forgotten(make: Make) -> None:
    stand = make(forget_after_s=0.2).ready()
    job_id = stand.sh(":")
    stand.end(job_id)

    until(lambda: stand.batch.describe_jobs(jobs=[job_id])["jobs"] == [])

    assert named(stand, "job") == []
    assert stand.truth(job_id)["status"] == "SUCCEEDED"


def test_unknown_jobs_are_left_out(stand: Stand) -> None:
    assert stand.batch.describe_jobs(jobs=["x"])["jobs"] == []


# Environments, queues, definitions


def test_an_environment_comes_to_life_or_is_invalid(make: Make) -> None:
    stand = make(valid_s=0.1, invalid={"bad": "CLIENT_ERROR - no such role"})

    for name in ("good", "bad"):
        stand.batch.create_compute_environment(
            computeEnvironmentName=name, type="UNMANAGED", serviceRole="role"
        )
    states = [e["status"] for e in environments(stand)]
    until(lambda: all(e["status"] != "CREATING" for e in environments(stand)))

    good, bad = environments(stand)
    assert states == ["CREATING", "CREATING"]
    assert (good["status"], bad["status"]) == ("VALID", "INVALID")
    assert bad["statusReason"] == "CLIENT_ERROR - no such role"
    with pytest.raises(ClientError, match="is not VALID: INVALID"):
        stand.queue("queue", "bad")


def environments(stand: Stand) -> list[Any]:
    return list(stand.batch.describe_compute_environments()["computeEnvironments"])


def test_a_second_resource_of_one_name_is_refused(stand: Stand) -> None:
    with pytest.raises(ClientError, match="Object already exists"):
        stand.environment()
    with pytest.raises(ClientError, match="Object already exists"):
        stand.queue()


def test_a_queue_does_not_mix_machines_and_fargate(stand: Stand) -> None:
    stand.batch.create_compute_environment(
        computeEnvironmentName="fargate",
        type="MANAGED",
        computeResources={
            "type": "FARGATE",
            "maxvCpus": 4,
            "subnets": ["s"],
            "securityGroupIds": ["g"],
        },
    )
    until(lambda: stand.server.world.environments["fargate"].status == "VALID")

    with pytest.raises(ClientError, match="can't be mixed"):
        stand.queue("both", "ce", "fargate")


def test_things_are_deleted_in_order(stand: Stand) -> None:
    batch = stand.batch
    job_id = stand.sh("sleep 60")
    stand.reach(job_id, "RUNNING")

    with pytest.raises(ClientError, match="must be DISABLED"):
        batch.delete_job_queue(jobQueue="queue")
    with pytest.raises(ClientError, match="must be DISABLED"):
        batch.delete_compute_environment(computeEnvironment="ce")
    batch.update_job_queue(jobQueue="queue", state="DISABLED")
    with pytest.raises(ClientError, match="is DISABLED"):
        stand.submit("definition")
    batch.update_compute_environment(computeEnvironment="ce", state="DISABLED")
    with pytest.raises(ClientError, match="JobQueue relationship"):
        batch.delete_compute_environment(computeEnvironment="ce")
    batch.delete_job_queue(jobQueue="queue")
    until(lambda: batch.describe_job_queues()["jobQueues"] == [])
    batch.delete_compute_environment(computeEnvironment="ce")
    until(lambda: environments(stand) == [])

    assert stand.end(job_id)["status"] == "FAILED"


def test_every_register_makes_a_revision(stand: Stand) -> None:
    first, second = stand.define(["one"]), stand.define(["two"])
    stand.batch.deregister_job_definition(jobDefinition="definition:2")

    def found(**more: Any) -> list[Any]:
        return list(stand.batch.describe_job_definitions(**more)["jobDefinitions"])

    assert (first[-2:], second[-2:]) == (":1", ":2")
    assert [d["revision"] for d in found(jobDefinitionName="definition")] == [2, 1]
    assert [d["revision"] for d in found(status="ACTIVE")] == [1]
    (inactive,) = found(jobDefinitions=["definition:2"])
    assert inactive["status"] == "INACTIVE"
    assert inactive["containerProperties"]["volumes"] == []
    used = [stand.job(stand.submit(name))["jobDefinition"] for name in ("definition", first)]
    assert used == [first, first]
    with pytest.raises(ClientError, match="INACTIVE"):
        stand.submit(second)


def test_definitions_come_in_pages(stand: Stand) -> None:
    for n in range(5):
        stand.define([":"], f"definition-{n}")

    paginator = stand.batch.get_paginator("describe_job_definitions")
    pages = list(paginator.paginate(status="ACTIVE", PaginationConfig={"PageSize": 2}))

    assert [len(page["jobDefinitions"]) for page in pages] == [2, 2, 1]


def test_jobs_and_environments_have_tags(stand: Stand) -> None:
    job_id = stand.sh(":", tags={"a": "1"})
    job = stand.job(job_id)

    stand.batch.tag_resource(resourceArn=job["jobArn"], tags={"b": "2"})

    assert stand.job(job_id)["tags"] == {"a": "1", "b": "2"}
    (environment,) = environments(stand)
    arn = environment["computeEnvironmentArn"]
    assert stand.batch.list_tags_for_resource(resourceArn=arn).get("tags") is None
    with pytest.raises(ClientError, match="at most 50"):
        stand.batch.tag_resource(resourceArn=job["jobArn"], tags={str(n): "" for n in range(49)})
