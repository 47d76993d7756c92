"""The client of a setup on AWS: whose account it works in, and what it says of a bucket that is not to be had."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from runspec_aws.setup import client
from runspec_aws.setup.client import connect
from runspec_aws.setup.marks import read_marks
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


class Pages(NamedTuple):
    """A list of one page."""

    ask: Any

    def paginate(self, **params: Any) -> list[Any]:
        return [self.ask(**params)]


class Account:
    """A session of which every service answers the same: by operation, an answer or the error to raise."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {"get_caller_identity": {"Account": "111122223333"}, **answers}

    def look(self, service: str) -> Account:
        return self

    make = look

    def get_paginator(self, operation: str) -> Pages:
        return Pages(getattr(self, operation))

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


@pytest.mark.parametrize(
    ("operation", "params", "asked"),
    [
        ("delete_subnet", {"SubnetId": "subnet-1"}, {"SubnetIds": ["subnet-1"]}),
        (
            "delete_vpc_endpoints",
            {"VpcEndpointIds": ["vpce-1"]},
            {"VpcEndpointIds": ["vpce-1"]},
        ),
    ],
)
def test_the_tags_of_a_part_of_a_network_are_read_by_its_id(
    operation: str, params: dict[str, Any], asked: dict[str, Any]
) -> None:
    """EC2 describes by lists of ids; it deletes endpoints by lists as well, and all else by one id."""
    seen: list[dict[str, Any]] = []

    def describe(**given: Any) -> dict[str, Any]:
        seen.append(given)
        tagged = [{"Tags": [{"Key": MARK, "Value": "aws-batch-abc123"}]}]
        return {"Subnets": tagged, "VpcEndpoints": tagged}

    ec2 = SimpleNamespace(describe_subnets=describe, describe_vpc_endpoints=describe)
    place: Any = SimpleNamespace(session=SimpleNamespace(look=lambda service: ec2))

    assert read_marks(place, Request("ec2", operation, params)) == {MARK: "aws-batch-abc123"}
    assert seen == [asked]


@pytest.mark.parametrize("roles", [[], [{"RoleName": "theirs"}]])
def test_a_role_that_has_left_its_instance_profile_is_not_removed_again(
    monkeypatch: pytest.MonkeyPatch, roles: list[Any]
) -> None:
    """An undo that was killed right after the removal is repeated."""
    tags = [{"Key": MARK, "Value": "aws-batch-abc123"}]
    removed = refusal("RemoveRoleFromInstanceProfile", "ServiceFailure")
    log_in(
        monkeypatch,
        get_instance_profile={"InstanceProfile": {"Roles": roles, "Tags": tags}},
        remove_role_from_instance_profile=removed,
    )
    names = {"InstanceProfileName": "machine", "RoleName": "machine"}
    request = Request("iam", "remove_role_from_instance_profile", names)

    assert connect(AwsSetup(), SURVEY, "aws-batch-abc123").call(request) == {}


def test_an_endpoint_that_was_made_just_now_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For some seconds, it may be unknown to the request that adds a route table."""
    unknown = refusal("ModifyVpcEndpoint", "InvalidVpcEndpointId.NotFound")
    log_in(monkeypatch, modify_vpc_endpoint=unknown)
    params = {"VpcEndpointId": "vpce-1", "AddRouteTableIds": ["rtb-1"]}

    with pytest.raises(RemoteError) as caught:
        connect(AwsSetup(), SURVEY, "aws-batch-abc123").call(
            Request("ec2", "modify_vpc_endpoint", params)
        )

    assert caught.value.transient


ROLE = "arn:aws:iam::111122223333:role/runspec-job-eu-central-1"
PROFILE = "arn:aws:iam::111122223333:instance-profile/runspec-machine-eu-central-1"
MARKED = [{"Key": MARK, "Value": "aws-batch-abc123"}]
NODES = {"nodeRangeProperties": [{"container": {"jobRoleArn": ROLE}}]}
EMPTY = {
    "describe_compute_environments": {"computeEnvironments": []},
    "describe_job_definitions": {"jobDefinitions": []},
    "get_role": {"Role": {"Tags": MARKED}},
    "get_instance_profile": {"InstanceProfile": {"Tags": MARKED}},
    "describe_security_groups": {"SecurityGroups": [{"Tags": MARKED}]},
}
UNDO = (
    Request("iam", "delete_role", {"RoleName": "runspec-job-eu-central-1"}),
    Request(
        "iam", "delete_instance_profile", {"InstanceProfileName": "runspec-machine-eu-central-1"}
    ),
    Request("ec2", "delete_security_group", {"GroupId": "sg-1"}),
    Request("ec2", "disassociate_route_table", {"AssociationId": "rtbassoc-1"}),
)


def make_environment(name: str, **more: Any) -> dict[str, Any]:
    resources = {"instanceRole": PROFILE, "subnets": ["subnet-1"], "securityGroupIds": ["sg-1"]}
    return {"computeEnvironmentName": name, "computeResources": resources, **more}


def list_reasons(*requests: Request, with_data: bool = False) -> list[str]:
    client_ = connect(AwsSetup(), SURVEY, "aws-batch-abc123")
    return [c.message for c in client_.check_undo(requests, (), with_data=with_data)]


def test_roles_and_groups_that_other_machines_use_are_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaving = make_environment("old", status="DELETING")
    environments = [make_environment("theirs", status="VALID"), leaving]
    definition = {"jobDefinitionName": "train", "revision": 3, "nodeProperties": NODES}
    lists = {
        "describe_compute_environments": {"computeEnvironments": environments},
        "describe_job_definitions": {"jobDefinitions": [definition]},
    }
    log_in(monkeypatch, **EMPTY | lists)

    assert list_reasons(*UNDO, with_data=True) == [
        "the role runspec-job-eu-central-1 is used by job definition train:3",
        "the instance profile runspec-machine-eu-central-1 is used by compute environment theirs",
        "the security group sg-1 is used by compute environment theirs",
    ]
    log_in(monkeypatch, **EMPTY)
    assert list_reasons(*UNDO) == []


def test_a_fargate_environment_and_many_users_are_told_in_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fargate = {"computeEnvironmentName": "f", "serviceRole": ROLE, "computeResources": {}}
    definitions = [
        {"jobDefinitionName": "train", "revision": n, "nodeProperties": NODES} for n in range(4)
    ]
    lists = {
        "describe_compute_environments": {"computeEnvironments": [fargate]},
        "describe_job_definitions": {"jobDefinitions": definitions},
    }
    log_in(monkeypatch, **EMPTY | lists)

    (reason,) = list_reasons(UNDO[0])

    assert reason.endswith(
        "used by compute environment f, job definition train:0, job definition train:1 and 2 more"
    )


def test_a_role_that_somebody_made_anew_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = {"jobDefinitionName": "train", "revision": 3, "nodeProperties": NODES}
    lists = {"describe_job_definitions": {"jobDefinitions": [definition]}}
    log_in(monkeypatch, **EMPTY | lists | {"get_role": {"Role": {"Tags": []}}})

    assert list_reasons(UNDO[0]) == []


STORED: tuple[tuple[Request, dict[str, Any], str, bool], ...] = (
    (
        Request("s3", "delete_bucket", {"Bucket": "b"}),
        {"get_bucket_tagging": {"TagSet": MARKED}, "list_object_versions": {"Versions": [{}]}},
        "the bucket b has objects, and stays",
        True,
    ),
    (
        Request("s3", "delete_bucket", {"Bucket": "b"}),
        {"get_bucket_tagging": {"TagSet": MARKED}, "list_object_versions": {"DeleteMarkers": [{}]}},
        "the bucket b has objects, and stays",
        True,
    ),
    (
        Request("logs", "delete_log_group", {"logGroupName": "g"}),
        {
            "describe_log_groups": {"logGroups": [{"logGroupName": "g", "arn": "arn:g:*"}]},
            "list_tags_for_resource": {"tags": {MARK: "aws-batch-abc123"}},
            "describe_log_streams": {"logStreams": [{}]},
        },
        "the log group g has logs, and stays",
        True,
    ),
    (
        Request("ecr", "delete_repository", {"repositoryName": "r"}),
        {
            "describe_repositories": {"repositories": [{"repositoryArn": "arn:r"}]},
            "list_tags_for_resource": {"tags": MARKED},
            "list_images": {"imageIds": [{}]},
        },
        "the repository r has images",
        False,
    ),
)


@pytest.mark.parametrize(("request_", "answers", "reason", "deleted"), STORED)
def test_what_holds_data_is_told_before_anything_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
    request_: Request,
    answers: dict[str, Any],
    reason: str,
    deleted: bool,
) -> None:
    log_in(monkeypatch, **answers)

    assert list_reasons(request_) == [reason]
    assert list_reasons(request_, with_data=True) == ([] if deleted else [reason])


class Emptied(Account):
    """An account whose lists are empty after the first deletion; it keeps what is deleted."""

    def __init__(self, answers: Mapping[str, Any], lists: str) -> None:
        super().__init__(answers)
        self.lists, self.deleted = lists, list[Any]()

    def __getattr__(self, operation: str) -> Any:
        if operation.startswith("delete_"):
            return self._note
        if operation == self.lists and self.deleted:
            return lambda **_: {"logStreams": []}
        return super().__getattr__(operation)

    def _note(self, **params: Any) -> dict[str, Any]:
        self.deleted.append(params)
        return {}


def empty(monkeypatch: pytest.MonkeyPatch, step: str, account: Emptied) -> list[Any]:
    """Delete what jobs have stored in what *step* makes, and return the requests for that."""
    monkeypatch.setattr(client, "open_session", lambda *_: account)
    survey = {**SURVEY, "zones": ["a"]}
    data = plan(AwsSetup(bucket="mine"), survey, "aws-batch-abc123").data[step]
    connect(AwsSetup(bucket="mine"), survey, "aws-batch-abc123").call(data)
    return account.deleted


def test_all_versions_of_a_bucket_of_the_setup_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "get_bucket_tagging": {"TagSet": MARKED},
        "list_object_versions": {
            "Versions": [{"Key": "a", "VersionId": "1", "Size": 1}],
            "DeleteMarkers": [{"Key": "b", "VersionId": "2"}],
        },
    }

    (request,) = empty(monkeypatch, "bucket", Emptied(answers, "list_object_versions"))

    keys = [{"Key": "a", "VersionId": "1"}, {"Key": "b", "VersionId": "2"}]
    assert request == {"Bucket": "mine", "Delete": {"Objects": keys, "Quiet": True}}
    theirs = {**answers, "get_bucket_tagging": {"TagSet": []}}
    assert empty(monkeypatch, "bucket", Emptied(theirs, "list_object_versions")) == []


def test_all_streams_of_a_log_group_of_the_setup_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = {"logGroupName": "/runspec/jobs", "arn": "arn:g:*"}
    answers = {
        "describe_log_groups": {"logGroups": [group]},
        "list_tags_for_resource": {"tags": {MARK: "aws-batch-abc123"}},
        "describe_log_streams": {"logStreams": [{"logStreamName": "s"}]},
    }

    deleted = empty(monkeypatch, "log-group", Emptied(answers, "describe_log_streams"))

    assert deleted == [{"logGroupName": "/runspec/jobs", "logStreamName": "s"}]
    theirs = {**answers, "list_tags_for_resource": {"tags": {}}}
    assert empty(monkeypatch, "log-group", Emptied(theirs, "describe_log_streams")) == []


def test_what_is_made_on_aws_can_be_used_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(monkeypatch)
    (step, *_) = plan(AwsSetup(), {**SURVEY, "zones": ["a"]}, "aws-batch-abc123").steps

    assert connect(AwsSetup(), SURVEY, "aws-batch-abc123").settled(step) is True


def find_existing(start: str) -> list[bool]:
    """Return whether each step exists of those whose ids begin with *start*."""
    survey = {**SURVEY, "zones": ["a"]}
    found = plan(AwsSetup(), survey, "aws-batch-abc123").steps
    steps = tuple(step for step in found if step.id.startswith(start))
    planned = Plan("aws-batch", "aws-batch-abc123", "", steps)
    return setup_engine.find_existing(planned, connect(AwsSetup(), survey, planned.run))
