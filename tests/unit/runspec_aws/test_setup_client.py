"""The client of a setup on AWS: whose account it works in, and what it says of a bucket that is not to be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws.setup import client
from runspec_aws.setup.client import connect
from runspec_aws.setup.options import AwsSetup
from runspec_aws.setup.steps import MARK, plan
from runspec_jobs.accounts import setup_engine
from runspec_jobs.plan.model import Plan
from runspec_jobs.provider import Conflict, CredentialsError, RemoteError, Request

SURVEY = {"region": "eu-central-1", "account": "111122223333", "partition": "aws", "quotas": {}}
SETTINGS = (
    "get_public_access_block",
    "get_bucket_encryption",
    "get_bucket_lifecycle_configuration",
)


class Account:
    """A session of which every service answers the same: by operation, an answer or the error to raise."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {"get_caller_identity": {"Account": "111122223333"}, **answers}

    def look(self, service: str) -> Account:
        return self

    make = look

    def __getattr__(self, operation: str) -> Any:
        def answer(**params: Any) -> Any:
            found = self.answers[operation]
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def log_in(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    monkeypatch.setattr(client, "open_session", lambda *_: Account(answers))


def refusal(operation: str, code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, operation)


def test_a_setup_is_not_undone_with_the_login_of_another_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_in(monkeypatch, get_caller_identity={"Account": "999988887777"})

    with pytest.raises(CredentialsError, match="999988887777, and the setup is in 111122223333"):
        connect(AwsSetup(), SURVEY, "aws-batch-abc123")


def test_a_bucket_of_another_account_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    denied = dict.fromkeys(SETTINGS, refusal("GetBucket", "AccessDenied"))
    log_in(monkeypatch, head_bucket=refusal("HeadBucket", "403"), **denied)

    with pytest.raises(Conflict) as caught:
        find_existing("bucket")

    assert caught.value.message.count("belongs to another account") == 1
    assert caught.value.hint == "choose another name: --set bucket=NAME"


def test_a_bucket_of_another_region_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Botocore follows the redirect to the other region, so that the bucket answers."""
    log_in(
        monkeypatch, head_bucket={"BucketRegion": "us-west-2"}, **{name: {} for name in SETTINGS}
    )

    with pytest.raises(Conflict, match="is in another region"):
        find_existing("bucket")


def test_an_endpoint_that_was_not_deleted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """EC2 answers with 200 and the ids of those that stay."""
    error = {"Code": "OperationNotPermitted", "Message": "it is not yours to delete"}
    tags = [{"Key": MARK, "Value": "aws-batch-abc123"}]
    log_in(
        monkeypatch,
        describe_vpc_endpoints={"VpcEndpoints": [{"VpcEndpointId": "vpce-1", "Tags": tags}]},
        delete_vpc_endpoints={"Unsuccessful": [{"Error": error, "ResourceId": "vpce-1"}]},
    )
    undo = Request("ec2", "delete_vpc_endpoints", {"VpcEndpointIds": ["vpce-1"]})

    with pytest.raises(RemoteError, match="vpce-1: it is not yours to delete"):
        connect(AwsSetup(), SURVEY, "aws-batch-abc123").call(undo)


def find_existing(start: str) -> list[bool]:
    """Return whether each step exists of those whose ids begin with *start*."""
    survey = {**SURVEY, "zones": ["a"]}
    found = plan(AwsSetup(), survey, "aws-batch-abc123").steps
    steps = tuple(step for step in found if step.id.startswith(start))
    planned = Plan("aws-batch", "aws-batch-abc123", "", steps)
    return setup_engine.find_existing(planned, connect(AwsSetup(), survey, planned.run))
