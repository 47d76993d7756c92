"""The steps of a setup on AWS: what they ask for, and what the profile says afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.validate import ParamValidator

from runspec_aws import PROVIDER
from runspec_aws.setup import finders
from runspec_aws.setup.client import KEPT
from runspec_aws.setup.options import AwsSetup
from runspec_aws.setup.rights import make_policy
from runspec_aws.setup.steps import plan
from runspec_aws.setup.template import RESOURCES, SETTINGS, write_template
from runspec_jobs.plan.model import REF, fill, find_marked
from runspec_jobs.provider import Request, Scope, Setup, SupportsSetup

REGION = "eu-central-1"
NETWORK = {"vpc": "vpc-1", "subnets": ["subnet-1"], "route_tables": ["rtb-1"]}
SURVEY = {"region": REGION, "account": "111122223333", "partition": "aws", "quotas": {}}
DEFAULT: dict[str, Any] = {**SURVEY, "network": NETWORK}
OWN: dict[str, Any] = {**SURVEY, "zones": ["a", "b", "c"]}


def make(survey: dict[str, Any] = DEFAULT, **options: Any) -> Setup:
    return plan(AwsSetup(**options), survey, "aws-batch-abc123")


def find_step(setup: Setup, name: str) -> Request:
    return next(step.do for step in setup.steps if step.id == name)


def test_the_provider_supports_setup() -> None:
    assert isinstance(PROVIDER, SupportsSetup)


@pytest.mark.parametrize("survey", [DEFAULT, OWN], ids=["default", "own"])
def test_each_request_is_one_that_the_sdk_accepts(survey: dict[str, Any]) -> None:
    setup = make(survey, repository="train")
    requests = [r for step in setup.steps for r in (step.do, step.undo) if r is not None]

    wrong = [f"{r.operation}: {report}" for r in requests if (report := validate(r))]

    assert wrong == []


def validate(request: Request) -> str:
    service = botocore.session.get_session().get_service_model(request.service)
    words = {xform_name(name): name for name in service.operation_names}
    shape = service.operation_model(words[request.operation]).input_shape
    marks = dict.fromkeys(find_marked(request.params, REF), "value")
    params = fill(request.params, {REF: marks})
    return str(ParamValidator().validate(params, shape).generate_report())


@pytest.mark.parametrize("survey", [DEFAULT, OWN], ids=["default", "own"])
def test_each_step_is_shared_found_and_answers_what_later_steps_refer_to(
    survey: dict[str, Any],
) -> None:
    setup = make(survey, repository="train")

    assert {step.scope for step in setup.steps} == {Scope.SITE}
    assert {step.do.operation for step in setup.steps} <= finders.FINDERS.keys()
    texts = [step.do.params for step in setup.steps] + [setup.settings]
    referred = {mark.split(".")[0] for text in texts for mark in find_marked(text, REF)}
    by_id = {step.id: step.do.operation for step in setup.steps}
    assert {by_id[name] for name in referred} <= KEPT.keys()


def test_settings_of_the_profile_are_not_made() -> None:
    role = "arn:aws:iam::111122223333:role/mine"

    setup = make(job_role=role, security_groups=["sg-1"], queue="q")

    ids = {step.id for step in setup.steps}
    assert not ids & {"job-role", "job-rights", "group", "machine-role", "endpoint"}
    assert setup.settings["job_role"] == role
    assert setup.settings["queue"] == "q"
    assert "subnets" not in setup.settings


def test_roles_may_be_taken_by_one_service_each_and_have_no_wildcard_actions() -> None:
    setup = make(repository="train")

    trusts = {
        name: json.loads(find_step(setup, f"{name}-role").params["AssumeRolePolicyDocument"])
        for name in ("job", "execution", "machine")
    }
    services = {n: t["Statement"][0]["Principal"]["Service"] for n, t in trusts.items()}
    assert services == {
        "job": "ecs-tasks.amazonaws.com",
        "execution": "ecs-tasks.amazonaws.com",
        "machine": "ec2.amazonaws.com",
    }
    rights = json.loads(find_step(setup, "execution-rights").params["PolicyDocument"])
    actions = [action for s in rights["Statement"] for action in s["Action"]]
    assert "ecr:BatchGetImage" in actions
    assert not [action for action in actions if "*" in action]


def test_the_execution_role_reads_the_secrets_and_images_that_runspec_makes() -> None:
    (rights,) = (
        step for step in plan(AwsSetup(), DEFAULT, "s").steps if step.id == "execution-rights"
    )
    statements = {s["Sid"]: s for s in json.loads(rights.do.params["PolicyDocument"])["Statement"]}

    read = statements["ExecutionOwnSecrets"]
    assert read["Action"] == ["secretsmanager:GetSecretValue"]
    assert read["Resource"] == [f"arn:aws:secretsmanager:{REGION}:*:secret:runspec/*"]
    assert statements["ExecutionOwnImages"]["Resource"] == [
        f"arn:aws:ecr:{REGION}:*:repository/runspec/*"
    ]


def test_a_zero_quota_is_named_with_the_request_to_make() -> None:
    quotas = {"on-demand machines with GPUs (P)": 0, "spot machines without GPUs": 64}

    setup = make({**DEFAULT, "quotas": quotas})

    (note,) = setup.notes
    assert "--quota-code L-417A185B --desired-value VCPUS --region eu-central-1" in note


def test_the_policy_of_setup_names_resources_and_no_account() -> None:
    options = AwsSetup(region=REGION, network="default")

    statements = {s["Sid"]: s for s in make_policy(options)["Statement"]}

    assert statements["Roles"]["Resource"] == [
        f"arn:aws:iam::*:role/runspec-{of}-{REGION}" for of in ("execution", "job", "machine")
    ]
    assert statements["Bucket"]["Resource"] == [f"arn:aws:s3:::runspec-*-{REGION}"]
    assert "ec2:CreateVpc" not in statements["Network"]["Action"]
    assert "ec2:CreateVpc" in str(make_policy(AwsSetup()))
    assert "000000000000" not in str(make_policy(AwsSetup())) + str(statements)


def test_only_what_a_setup_has_marked_may_be_changed_or_deleted() -> None:
    """Each of these actions has `aws:ResourceTag` for each of its resources, says AWS's reference."""
    marked = {"Null": {"aws:ResourceTag/runspec:setup": "false"}}

    statements = make_policy(AwsSetup(region=REGION, repository="train"))["Statement"]

    network = [s for s in statements if any(a.startswith("ec2:") for a in s["Action"])]
    free = [s for s in network if s.get("Condition", {}).get("Null") != marked["Null"]]
    actions = {action for s in free for action in s["Action"] if action.startswith("ec2:")}
    others = {a for a in actions if not a.startswith(("ec2:Create", "ec2:Describe"))}
    assert others == {"ec2:ModifyVpcEndpoint"}
    assert "ec2:CreateRoute" not in actions
    (route_tables,) = (s["Resource"] for s in free if s["Action"] == ["ec2:ModifyVpcEndpoint"])
    assert route_tables == [f"arn:aws:ec2:{REGION}:*:route-table/*"]
    for statement in network:
        if statement["Sid"] != "Look":
            only = statement["Condition"]["StringEquals"]
            assert only["aws:RequestedRegion"] == REGION


def test_tags_are_given_only_while_something_is_made() -> None:
    statements = {s["Sid"]: s for s in make_policy(AwsSetup())["Statement"]}

    only = statements["Tags"]["Condition"]["StringEquals"]
    assert only == {"ec2:CreateAction": sorted(only["ec2:CreateAction"])}
    assert "CreateVpc" in only["ec2:CreateAction"]


@pytest.mark.parametrize(
    ("region", "service"),
    [("eu-central-1", "ec2.amazonaws.com"), ("cn-north-1", "ec2.amazonaws.com.cn")],
)
def test_the_role_of_machines_is_passed_to_ec2_alone(region: str, service: str) -> None:
    statements = {s["Sid"]: s for s in make_policy(AwsSetup(region=region))["Statement"]}

    assert statements["MachineRole"]["Condition"] == {
        "StringEquals": {"iam:PassedToService": service}
    }


def test_route_tables_with_an_endpoint_of_somebody_else_need_none() -> None:
    setup = make({**DEFAULT, "network": {**NETWORK, "route_tables": []}})

    assert not [step for step in setup.steps if step.id.startswith("endpoint")]


@pytest.mark.parametrize("survey", [DEFAULT, OWN], ids=["default", "own"])
def test_each_step_is_in_the_template_and_each_reference_names_a_resource(
    survey: dict[str, Any],
) -> None:
    setup = make(survey, repository="train")

    template = json.loads(write_template(setup))

    resources = template["Resources"]
    assert {step.do.operation for step in setup.steps} == RESOURCES.keys() | SETTINGS.keys() or (
        "network" in survey
    )
    assert set(find_references(template)) <= resources.keys()
    assert "$ref" not in json.dumps(template)
    assert resources["MachineProfile"]["Properties"]["Roles"] == [{"Ref": "MachineRole"}]
    assert resources["Bucket"]["DeletionPolicy"] == "Retain"
    settings = {"PublicAccessBlockConfiguration", "BucketEncryption", "LifecycleConfiguration"}
    assert settings <= resources["Bucket"]["Properties"].keys()
    if survey is OWN:
        assert resources["Subnet1"]["Properties"]["MapPublicIpOnLaunch"] is True


def find_references(value: Any) -> Iterator[str]:
    """Yield the logical names that a template refers to."""
    if isinstance(value, dict):
        yield from [value["Ref"]] if "Ref" in value else []
        yield from [value["Fn::GetAtt"][0]] if "Fn::GetAtt" in value else []
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from find_references(item)


def test_a_bucket_of_us_east_1_has_no_constraint() -> None:
    setup = make({**DEFAULT, "region": "us-east-1"})

    configuration = find_step(setup, "bucket").params["CreateBucketConfiguration"]
    assert list(configuration) == ["Tags"]


def test_the_setup_after_a_template_is_told_the_settings_of_the_template() -> None:
    notes = PROVIDER.export_setup(make()).notes

    assert f"runspec setup aws-batch --set region={REGION} SETTINGS, which" in notes[1]
