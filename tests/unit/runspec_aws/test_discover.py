"""What is asked about a queue of the profile, and what is not waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from runspec_aws import discover
from runspec_aws.errors import Part
from runspec_aws.options import AwsOptions
from runspec_aws.provider import PROVIDER
from runspec_jobs.provider import NoAnswer
from tests.support.aws.specs import PROFILE, spec

ARN = "arn:aws:batch:eu-central-1:1:compute-environment/"


class Batch:
    """Answers as DescribeJobQueues and DescribeComputeEnvironments do, in any order."""

    def __init__(self, *queues: dict[str, Any]) -> None:
        self.queues = queues

    def describe_job_queues(self, **asked: Any) -> dict[str, Any]:
        return {"jobQueues": [q for q in self.queues if q["jobQueueName"] in asked["jobQueues"]]}

    def describe_compute_environments(self, computeEnvironments: list[str]) -> dict[str, Any]:  # noqa: N803 - the name of the service
        assert sorted(computeEnvironments) == [f"{ARN}a", f"{ARN}b"]
        resources = {"type": "EC2", "maxvCpus": 8, "instanceTypes": ["c6i"], "desiredvCpus": 4}
        found = [
            {"computeEnvironmentArn": f"{ARN}b", "computeEnvironmentName": "b"},
            {
                "computeEnvironmentArn": f"{ARN}a",
                "computeEnvironmentName": "a",
                "computeResources": resources,
            },
        ]
        return {"computeEnvironments": found}


def queue(name: str, *names: str) -> dict[str, Any]:
    order = [{"order": n, "computeEnvironment": f"{ARN}{e}"} for n, e in enumerate(names, 1)]
    return {"jobQueueName": name, "computeEnvironmentOrder": order[::-1]}


def test_environments_come_in_the_order_of_the_queue_and_say_nothing_of_today() -> None:
    assert discover.environments(Batch(queue("mine", "a", "b")), "mine") == [
        {"name": "a", "type": "EC2", "max_vcpus": 8, "instance_types": ["c6i"]},
        {"name": "b", "type": "UNMANAGED", "max_vcpus": None, "instance_types": []},
    ]


@pytest.mark.parametrize("queues", [(), (queue("mine"),), (queue("other", "a"),)])
def test_a_queue_without_environments_has_an_empty_list(queues: tuple[Any, ...]) -> None:
    assert discover.environments(Batch(*queues), "mine") == []


def test_nobody_is_asked_about_a_queue_that_runspec_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "Session", None)

    assert PROVIDER.survey(spec(), AwsOptions.model_validate(PROFILE)) == {}


def cut_off() -> Any:
    return Part()["jobQueues"]


def no_network() -> Any:
    raise EndpointConnectionError(endpoint_url="https://batch.eu-central-1.amazonaws.com")


@pytest.mark.parametrize("answer", [cut_off, no_network])
def test_facts_that_cannot_be_requested_are_left_out(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Any]
) -> None:
    class Failing:
        def __init__(self, options: AwsOptions) -> None: ...

        def new_client(self, service: str, config: Any) -> Any:
            return self

        def describe_job_queues(self, **_: Any) -> Any:
            return answer()

    monkeypatch.setattr(discover, "Session", Failing)

    assert discover.survey(AwsOptions.model_validate({**PROFILE, "queue": "mine"})) == {}
    with pytest.raises(NoAnswer):
        cut_off()
