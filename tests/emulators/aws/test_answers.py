"""Answers have the members that the service models give them, and no other."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from runspec_emulators.aws import models, signature
from runspec_emulators.aws.models import operation_model
from runspec_emulators.aws.region import PAIR
from runspec_emulators.frame.errors import InvalidResponse
from tests.emulators.aws.stand import Stand

# JobDetail.startedAt is required in the model, and absent in the CLI's example of a new job.
NOT_YET = 'Missing required parameter in jobs[0]: "startedAt"'


@pytest.fixture(scope="module")
def ids(shared: Stand) -> dict[str, str]:
    nodes = shared.define_nodes(["true"], 2)
    made = {
        "plain": shared.sh("echo x; exit 1", tags={"a": "1"}, retryStrategy={"attempts": 2}),
        "array": shared.sh(":", arrayProperties={"size": 2}),
        "nodes": shared.submit(nodes),
    }
    for job_id in made.values():
        shared.end(job_id)
    made["new"] = shared.sh(":", dependsOn=[{"jobId": shared.sh("sleep 60")}])
    return {**made, "child": made["array"] + ":1", "node": made["nodes"] + "#1"}


def problems(stand: Stand, operation: str, params: dict[str, Any]) -> list[str]:
    model = operation_model("batch", operation)
    target, body = model.http["requestUri"], json.dumps(params).encode()
    headers = {"host": stand.server.url.removeprefix("http://"), "content-type": "application/json"}
    own = signature.sign("POST", target, headers, body, PAIR, "us-east-1", "batch")
    request = urllib.request.Request(stand.server.url + target, body, own, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = ParamValidator().validate(json.load(answer), model.output_shape)
    return [line for line in found.generate_report().splitlines() if line != NOT_YET]


@pytest.mark.parametrize("kind", ["plain", "array", "child", "nodes", "node", "new"])
def test_a_described_job_is_as_the_model_says(
    shared: Stand, ids: dict[str, str], kind: str
) -> None:
    assert problems(shared, "DescribeJobs", {"jobs": [ids[kind]]}) == []


@pytest.mark.parametrize(
    "operation,params",
    [
        ("DescribeComputeEnvironments", {}),
        ("DescribeJobQueues", {}),
        ("DescribeJobDefinitions", {"status": "ACTIVE"}),
        ("ListJobs", {"jobQueue": "queue", "filters": [{"name": "JOB_NAME", "values": ["*"]}]}),
    ],
)
def test_other_answers_are_as_the_model_says(
    shared: Stand, ids: dict[str, str], operation: str, params: dict[str, Any]
) -> None:
    assert problems(shared, operation, params) == []


QUEUE = {
    "jobQueueName": "q",
    "jobQueueArn": "arn",
    "state": "ENABLED",
    "priority": 1,
    "computeEnvironmentOrder": [],
}


def answered(**more: Any) -> None:
    queue = {key: value for key, value in {**QUEUE, **more}.items() if value is not None}
    request = models.Request("batch", "DescribeJobQueues", {}, 0)
    models.check_answer(request, {"jobQueues": [queue]})


@pytest.mark.parametrize(
    "more,said",
    [
        ({"colour": "red"}, "Unknown parameter"),
        ({"priority": "1"}, "Invalid type"),
        ({"jobQueueArn": None}, "Missing required"),
        ({"state": "ON"}, "'ON' is none of"),
        ({"tags": {}}, "0 is less than 1"),
    ],
)
def test_an_answer_that_the_model_has_not_is_refused(more: dict[str, Any], said: str) -> None:
    answered()

    with pytest.raises(InvalidResponse, match=said):
        answered(**more)


@pytest.mark.process
def test_a_wrong_answer_is_no_answer(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks gets an error with what is wrong, which no client takes for the service's."""
    monkeypatch.setattr(models, "LATER", frozenset())

    with pytest.raises(ClientError, match=r"none of the service's: DescribeJobs: .*startedAt"):
        stand.job(stand.sh("sleep 60", dependsOn=[{"jobId": stand.sh("sleep 60")}]))
