"""`runspec setup aws-batch`: from an empty account to a trained model in two commands, and back."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import errors, session, timing
from runspec_emulators.aws.region import Objects, Region
from runspec_jobs.cli.app import run
from tests.support.aws.empty_account import (
    REGION,
    client,
    empty_account,
    environment,
    list_things,
    reset,
)
from tests.support.aws.emulated_account import Capture

pytestmark = pytest.mark.slow

PROFILE = Path("runspec-profile.yaml")
JOB = """\
apiVersion: runspec/v1
name: line
provider: aws-batch
mounts: [{name: code, source: ./code, target: /job/code}]
outputs: [{name: model, path: /job/model}]
command: [python3, "${mounts.code}/train.py", "${outputs.model}/weights.json"]
"""
TRAIN = """\
import json, sys

points = [(x, 3 * x + 1) for x in range(10)]
slope = shift = 0.0
for _ in range(2000):
    for x, y in points:
        error = slope * x + shift - y
        slope, shift = slope - 0.01 * error * x, shift - 0.01 * error
json.dump({"slope": slope, "shift": shift}, open(sys.argv[1], "w"))
print("trained")
"""


@pytest.fixture(scope="module")
def shared_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    with empty_account(tmp_path_factory.mktemp("account")) as found:
        yield found


@pytest.fixture
def account(
    shared_account: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Objects]:
    """Give an account in which nobody has made anything, and a folder without a profile."""
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(settle_s=1.0, quiet_s=0.2))
    for name, value in environment(shared_account).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    yield shared_account
    reset(shared_account)


def set_up(*words: str) -> int:
    return run(["setup", "aws-batch", "--yes", *words])


def test_from_an_empty_account_two_commands_lead_to_a_trained_model(
    account: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("code").mkdir()
    Path("code/train.py").write_text(TRAIN)
    Path("job.yaml").write_text(JOB)
    with Region(tmp_path / "region", REGION, account, terminate_grace_s=1.0) as region:
        for name, value in region.env.items():
            monkeypatch.setenv(name, value)

        assert run(["setup", "aws-batch", "--yes"]) == 0
        assert run(["apply", "job.yaml"]) == 0

        assert run(["fetch", "line", "got"]) == 0
        weights = json.loads(Path("got/model/weights.json").read_text())
        assert (round(weights["slope"], 2), round(weights["shift"], 2)) == (3.0, 1.0)
        assert run(["setup", "aws-batch", "--undo", "--yes"]) == 4  # the run needs it
        for words in (["destroy", "line", "--yes"], ["destroy", "--shared", "--yes"]):
            assert run(words) == 0
        assert run(["setup", "aws-batch", "--undo", "--yes"]) == 4  # the log group has logs
        assert run(["setup", "aws-batch", "--undo", "--yes", "--with-data"]) == 0
        assert list_things(account) == []
        assert not PROFILE.exists()


def test_setup_makes_a_closed_bucket_and_roles_with_the_rights_of_policy(account: Objects) -> None:
    assert set_up() == 0

    s3, iam = client(account, "s3"), client(account, "iam")
    name = f"runspec-123456789012-{REGION}"
    block = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
    assert set(block.values()) == {True}
    (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    of_job = {"RoleName": f"runspec-job-{REGION}", "PolicyName": "runspec"}
    statements = iam.get_role_policy(**of_job)["PolicyDocument"]["Statement"]
    printed = [s for s in read_job_policy() if not s["Sid"].startswith(("Execution", "LogGroup"))]
    assert statements == printed
    of_execution = {"RoleName": f"runspec-execution-{REGION}", "PolicyName": "runspec"}
    others = iam.get_role_policy(**of_execution)["PolicyDocument"]["Statement"]
    # Besides, the secrets and images that runspec makes for other jobs.
    own = [s for s in others if s["Sid"].startswith("ExecutionOwn")]
    assert len(own) == 3
    assert [s for s in read_job_policy() if s not in printed] == [s for s in others if s not in own]


def read_job_policy() -> list[dict[str, Any]]:
    """Return what `runspec policy --job` prints with the profile that the setup has written."""
    Path("job.yaml").write_text(
        "apiVersion: runspec/v1\nname: a\nprovider: aws-batch\nrun: 'true'\n"
    )
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run(["policy", "--job", "job.yaml"]) == 0
    found: list[dict[str, Any]] = json.loads(printed.getvalue())["Statement"]
    return found


def test_a_repeated_setup_makes_nothing_and_changes_no_profile(
    account: Objects, capsys: Capture
) -> None:
    assert set_up() == 0
    things, profile = list_things(account), PROFILE.read_bytes()
    capsys.readouterr()

    assert run(["setup", "aws-batch"]) == 0  # asks nothing, as nothing is missing

    assert "make " not in capsys.readouterr().out
    assert (list_things(account), PROFILE.read_bytes()) == (things, profile)


def test_setup_makes_a_deleted_log_group_again_and_undo_deletes_it(account: Objects) -> None:
    assert set_up() == 0
    logs = client(account, "logs")
    logs.delete_log_group(logGroupName="/runspec/jobs")

    assert set_up() == 0

    assert [g["logGroupName"] for g in logs.describe_log_groups()["logGroups"]] == ["/runspec/jobs"]
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert list_things(account) == []


def test_nothing_is_made_where_nobody_can_be_asked(account: Objects, capsys: Capture) -> None:
    assert run(["setup", "aws-batch"]) == 2

    said = capsys.readouterr()
    assert "make   bucket runspec-123456789012-eu-central-1" in said.out
    assert "not confirmed: nothing was made" in said.err
    assert list_things(account) == []


def test_a_bucket_that_is_there_is_used_as_it_is_and_stays(account: Objects) -> None:
    s3 = client(account, "s3")
    s3.create_bucket(Bucket="mine", CreateBucketConfiguration={"LocationConstraint": REGION})
    before = list_things(account)

    assert set_up("--set", "bucket=mine") == 0

    assert [t for t in list_things(account) if "mine" in t] == before
    assert "bucket: mine" in PROFILE.read_text()
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert list_things(account) == before


def test_roles_and_groups_of_somebody_else_are_refused_in_one_round(
    account: Objects, capsys: Capture
) -> None:
    iam, ec2 = client(account, "iam"), client(account, "ec2")
    iam.create_role(RoleName=f"runspec-job-{REGION}", AssumeRolePolicyDocument="{}")
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    ec2.create_security_group(GroupName="runspec", Description="theirs", VpcId=vpc)
    before = list_things(account)

    assert set_up() == 4

    said = capsys.readouterr().err
    assert f"the role runspec-job-{REGION} exists, and no runspec setup has made it" in said
    assert "the security group runspec exists" in said
    assert "--set name=NAME" in said
    assert list_things(account) == before
    assert set_up("--set", "name=ours") == 0


def test_a_network_of_its_own_is_made_and_undone(account: Objects) -> None:
    assert set_up("--set", "network=own") == 0

    things = list_things(account)
    assert "network 10.60.0.0/16" in things
    assert [t for t in things if t.startswith("subnet")] == [
        f"subnet 10.60.{16 * n}.0/20 True" for n in range(3)
    ]
    assert PROFILE.read_text().count("subnet-") == 3
    assert run(["setup", "aws-batch"]) == 0
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert list_things(account) == []


def make_endpoint(account: Objects, *tables: str, marked: bool = False) -> str:
    """Make a gateway endpoint of S3 in the default network, with routes in *tables*, and return its id."""
    ec2 = client(account, "ec2")
    tags = [{"Key": "runspec:setup", "Value": "aws-batch-older1"}] if marked else []
    made = ec2.create_vpc_endpoint(
        VpcEndpointType="Gateway",
        VpcId=ec2.describe_vpcs()["Vpcs"][0]["VpcId"],
        ServiceName=f"com.amazonaws.{REGION}.s3",
        RouteTableIds=list(tables),
        TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": tags}] if tags else [],
    )
    return str(made["VpcEndpoint"]["VpcEndpointId"])


def list_routes(account: Objects) -> list[list[str]]:
    """Return the route tables of each endpoint."""
    endpoints = client(account, "ec2").describe_vpc_endpoints()["VpcEndpoints"]
    return [e["RouteTableIds"] for e in endpoints if e["State"] != "deleted"]


def find_main_table(account: Objects) -> str:
    return str(client(account, "ec2").describe_route_tables()["RouteTables"][0]["RouteTableId"])


def test_an_endpoint_without_the_route_tables_of_the_subnets_is_not_enough(
    account: Objects, capsys: Capture
) -> None:
    main = find_main_table(account)
    make_endpoint(account)

    assert set_up() == 0

    assert f"make   gateway endpoint of S3: a route in {main}" in capsys.readouterr().out
    assert sorted(list_routes(account)) == [[], [main]]
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert list_routes(account) == [[]]


def test_an_endpoint_of_somebody_else_with_the_route_tables_is_used(
    account: Objects, capsys: Capture
) -> None:
    main = find_main_table(account)
    make_endpoint(account, main)

    assert set_up() == 0

    assert "endpoint" not in capsys.readouterr().out
    assert list_routes(account) == [[main]]
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert list_routes(account) == [[main]]


def test_an_endpoint_of_an_older_setup_gets_the_routes_that_it_lacks(account: Objects) -> None:
    main = find_main_table(account)
    make_endpoint(account, marked=True)

    assert set_up() == 0

    assert list_routes(account) == [[main]]
    assert run(["setup", "aws-batch"]) == 0  # asks nothing, as nothing is missing


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
OF_S3 = {
    "HeadBucket": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "DeleteObjects": "DeleteObjectVersion",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
}
SERVICES = {"service-quotas": "servicequotas"}


def test_every_call_of_setup_and_undo_is_in_the_policy_of_setup(
    account: Objects, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    called: set[str] = set()

    def checked(parsed: dict[str, Any], **event: Any) -> None:
        service, name = event["model"].service_model.service_name, event["model"].name
        name = OF_S3.get(name, name) if service == "s3" else name
        called.add(f"{SERVICES.get(service, service)}:{name}")
        errors.checked(parsed, **event)

    monkeypatch.setattr(session, "checked", checked)
    settings = ["--set", f"region={REGION}", "--set", "network=own", "--set", "repository=train"]
    assert run(["policy", "--setup", "aws-batch", *settings]) == 0
    statements = json.loads(capsys.readouterr().out)["Statement"]

    assert set_up(*settings) == 0
    assert set_up() == 0
    bucket = f"runspec-123456789012-{REGION}"
    client(account, "s3").put_object(Bucket=bucket, Key="a", Body=b"a")
    logs = client(account, "logs")
    logs.create_log_stream(logGroupName="/runspec/jobs", logStreamName="a")
    assert run(["setup", "aws-batch", "--undo", "--yes", "--with-data"]) == 0

    allowed = {action for statement in statements for action in statement["Action"]}
    assert called - allowed == {"sts:GetCallerIdentity"}  # which needs none
    of_others = {"s3:DeleteObject", "s3:TagResource", "logs:TagResource", "ecr:TagResource"}
    of_others |= {"iam:TagRole", "iam:TagInstanceProfile", "iam:PassRole", "ec2:CreateTags"}
    of_others.add("ec2:ModifyVpcEndpoint")  # for an endpoint of an older setup
    assert allowed - called == of_others  # what other calls need besides
    assert not [one for one in statements if one["Resource"] == ["*"] and "iam:" in str(one)]


def test_setup_finds_what_its_template_made_and_deletes_nothing_of_it(
    account: Objects, capsys: Capture
) -> None:
    more = ["--set", "repository=train"]
    assert run(["setup", "aws-batch", *more, "--export", "setup.json"]) == 0
    assert list_things(account) == []
    stack = {"StackName": "runspec", "TemplateBody": Path("setup.json").read_text()}

    cloudformation = client(account, "cloudformation")
    cloudformation.create_stack(**stack, Capabilities=["CAPABILITY_NAMED_IAM"])
    capsys.readouterr()
    assert run(["setup", "aws-batch", *more, "--yes"]) == 0

    made = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  make ")]
    # Settings of its resources that moto's CloudFormation leaves out; policies are text of Python there.
    assert {line.partition(": ")[0].split()[1] for line in made} <= {
        "rights",
        "security",
        f"runspec-123456789012-{REGION}",
    }
    assert all(": " in line for line in made)
    things = list_things(account)
    outputs = cloudformation.describe_stacks()["Stacks"][0]["Outputs"]
    told = {output["OutputKey"]: output["OutputValue"] for output in outputs}
    assert told["Bucket"] in PROFILE.read_text()
    assert told["SecurityGroups"] in PROFILE.read_text()
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert list_things(account) == things
    reset(account)
    assert set_up(*more) == 0
    assert list_things(account) == things  # the template makes what a setup does


def test_objects_keep_everything_until_they_may_be_deleted(
    account: Objects, capsys: Capture
) -> None:
    assert set_up() == 0
    name = f"runspec-123456789012-{REGION}"
    client(account, "s3").put_object(Bucket=name, Key="runspec/model", Body=b"weights")
    before = list_things(account)

    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 4

    assert "has objects, and stays" in capsys.readouterr().err
    assert list_things(account) == before
    assert run(["setup", "aws-batch", "--undo", "--yes", "--with-data"]) == 0
    assert list_things(account) == []


def test_roles_that_a_job_definition_of_another_machine_uses_stay(
    account: Objects, capsys: Capture
) -> None:
    assert set_up() == 0
    container = {
        "image": "python",
        "jobRoleArn": f"arn:aws:iam::123456789012:role/runspec-job-{REGION}",
        "resourceRequirements": [
            {"type": "VCPU", "value": "1"},
            {"type": "MEMORY", "value": "1024"},
        ],
    }
    batch, train = client(account, "batch"), {"jobDefinitionName": "train", "type": "container"}
    made = batch.register_job_definition(**train, containerProperties=container)
    before = list_things(account)

    assert run(["setup", "aws-batch", "--undo", "--yes", "--with-data"]) == 4

    said = capsys.readouterr().err
    assert f"the role runspec-job-{REGION} is used by job definition train:1" in said
    assert list_things(account) == before
    batch.deregister_job_definition(jobDefinition=made["jobDefinitionArn"])
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert list_things(account) == []


def test_undo_spares_a_role_that_somebody_made_again(account: Objects) -> None:
    assert set_up() == 0
    iam, role = client(account, "iam"), {"RoleName": f"runspec-job-{REGION}"}
    iam.delete_role_policy(**role, PolicyName="runspec")
    iam.delete_role(**role)
    iam.create_role(**role, AssumeRolePolicyDocument="{}")

    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0

    assert list_things(account) == [f"role runspec-job-{REGION} [] []"]


def test_settings_are_added_to_a_profile_whose_comments_stay(account: Objects) -> None:
    PROFILE.write_text("providers:\n  local: {engine: process}  # this machine\n")

    assert set_up() == 0

    text = PROFILE.read_text()
    assert "  local: {engine: process}  # this machine\n" in text
    assert "    bucket: runspec-123456789012-eu-central-1\n" in text
    assert run(["setup", "aws-batch", "--undo", "--yes"]) == 0
    assert PROFILE.read_text() == text  # somebody else wrote a part of it


def test_examples_of_init_are_refused_with_the_way_out(account: Objects, capsys: Capture) -> None:
    assert run(["init", "--provider", "aws-batch"]) == 0
    PROFILE.write_text(PROFILE.read_text() + "    # mine\n")

    assert set_up() == 2

    said = capsys.readouterr().err
    assert "still has the examples of runspec init: bucket, job_role" in said
    assert list_things(account) == []
