"""Templates of CloudFormation become specs, and references in them their values, or losses."""

from __future__ import annotations

import pytest

from runspec_aws import PROVIDER
from runspec_jobs.provider import OtherFormat
from runspec_jobs.provider.types import ForeignFile, Imported
from tests.support.imports import list_losses, read_all, read_only, read_profile

HEAD = """\
Parameters:
  Repo: {Type: String, Default: trainer}
  Bucket: {Type: String}
Resources:
"""
JOB = """\
  %s:
    Type: AWS::Batch::JobDefinition
    Properties:
      Type: container
      ContainerProperties:
        Image: %s
        Command: [train]
"""


def convert(text: str) -> Imported:
    return PROVIDER.imports(ForeignFile("stack.yaml", HEAD + text), None)


def take(lines: str, image: str = "train:1") -> Imported:
    return convert(JOB % ("Train", image) + lines)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("!Ref Repo", "trainer"),
        ('{"Ref": "Repo"}', "trainer"),
        ('!Sub "s3://${Repo}/${!keep}"', "s3://trainer/${keep}"),
        ('!Sub ["${a}-${Repo}", {a: !Ref Repo}]', "trainer-trainer"),
        ('!Join ["/", [a, !Ref Repo, "${b.c}"]]', "a/trainer/${b.c}"),
    ],
)
def test_a_reference_that_the_file_resolves_is_its_value(value: str, text: str) -> None:
    imported = take(f"        Environment: [{{Name: A, Value: {value}}}]\n")

    assert read_only(imported).env["A"] == text
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("value", "reference"),
    [
        ("!Ref Bucket", "Bucket"),
        ("!GetAtt Store.Arn", "Store.Arn"),
        ('{"Fn::GetAtt": [Store, Arn]}', "Store.Arn"),
        ('!Sub "${AWS::Region}-x"', "AWS::Region"),
        ("!ImportValue other", "Fn::ImportValue"),
        ("!If [A, b, c]", "Fn::If"),
    ],
)
def test_a_reference_that_only_the_service_knows_is_lost_with_its_line(
    value: str, reference: str
) -> None:
    imported = take(f"        Environment:\n          - Name: A\n            Value: {value}\n")

    assert "A" not in read_only(imported).env
    where = "stack.yaml:14: Train.ContainerProperties.Environment[0].Value"
    why = f"it refers to {reference}, which only CloudFormation knows"
    assert list_losses(imported) == [f"{where}: {why}"]


def test_an_image_keeps_words_in_place_of_what_is_unknown() -> None:
    imported = take("", '!Sub "${AWS::AccountId}.dkr.ecr.us-east-1.amazonaws.com/${Repo}:1"')

    spec = read_only(imported)
    assert spec.container.image == "replace-awsaccountid.dkr.ecr.us-east-1.amazonaws.com/trainer:1"
    assert "AWS::AccountId" in list_losses(imported)[0]


def test_keys_that_are_words_of_the_user_stay_as_they_are() -> None:
    imported = take("      Parameters: {Size: big}\n      Tags: {Team: A}\n").spec

    assert "Team: A" in imported


def test_several_definitions_become_several_jobs_and_other_resources_are_named() -> None:
    queue = "  Queue: {Type: 'AWS::Batch::JobQueue', Properties: {Priority: 1}}\n"
    imported = convert(JOB % ("One", "a:1") + JOB % ("Two", "b:1") + queue)

    assert [spec.name for spec in read_all(imported)] == ["one", "two"]
    assert [loss.split(": ")[1] for loss in list_losses(imported)] == ["Queue"]


def test_a_role_of_the_template_is_lost_and_one_with_an_address_is_not() -> None:
    role = "arn:aws:iam::123456789012:role/a"
    imported = take(f"        JobRoleArn: {role}\n        ExecutionRoleArn: !Ref Role\n")

    read_only(imported)
    assert read_profile(imported, "aws-batch") == {"job_role": role}
    assert len(list_losses(imported)) == 1


def test_a_template_without_a_job_definition_is_of_another_format() -> None:
    with pytest.raises(OtherFormat):
        convert("  Queue: {Type: 'AWS::Batch::JobQueue'}\n")
