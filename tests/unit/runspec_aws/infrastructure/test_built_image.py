"""The image that a spec has built, in the plan of a job on AWS Batch."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws import check, plan, policy
from runspec_aws.options import AwsOptions
from runspec_images.image_plan import REHEARSED
from runspec_jobs.provider import Facts, Source, Spec, Step
from runspec_jobs.provider.job_manifest import CONTEXT
from runspec_jobs.testing import documents
from tests.support.aws.specs import PROFILE, spec
from tests.unit.runspec_aws.test_plan import RUN

HOST = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
BUILD = {"build": {"context": "./image"}}


def facts(digest: str = "1", **profile: Any) -> Facts:
    options = AwsOptions.model_validate({**PROFILE, **profile})
    return Facts(options, {CONTEXT: Source(f"sha256:{digest * 64}", 2, 30)})


def steps(wanted: Spec, given: Facts) -> dict[str, Step]:
    return {step.id: step for step in plan.steps(wanted, RUN, given)}


def test_without_a_setting_each_job_has_a_repository_at_ecr() -> None:
    found = steps(spec(name="train", container=BUILD), facts())

    named = found["image"].do.params["image"]
    assert named.startswith(f"{HOST}/runspec/train:runspec-")
    assert found["image"].do.params["platform"] == "linux/amd64"
    assert found["repository"].do.params["repositoryName"] == "runspec/train"
    container = found["definition"].do.params["containerProperties"]
    assert container["image"] == {"$ref": "image.image"}
    tag = named.rpartition(":")[2]
    undo = found["image"].undo
    assert undo is not None
    assert undo.params["imageIds"] == [{"imageTag": tag}]
    assert [*found].index("repository") < [*found].index("image") < [*found].index("definition")


def test_a_repository_of_the_profile_is_neither_made_nor_emptied() -> None:
    found = steps(spec(container=BUILD), facts(images="registry.example.org/team"))

    assert "repository" not in found
    assert found["image"].undo is None
    assert found["image"].do.params["image"].startswith("registry.example.org/team:runspec-")


def test_the_tag_and_the_definition_are_of_the_content() -> None:
    wanted, other = (
        spec(container=BUILD),
        spec(container={"build": {"context": "./x", "file": "F"}}),
    )
    one, same, changed = (steps(wanted, facts(digest)) for digest in "112")

    def names(found: dict[str, Step]) -> tuple[str, str]:
        definition = found["definition"].do.params["jobDefinitionName"]
        return found["image"].do.params["image"], definition

    assert names(one) == names(same)
    for name, others in zip(names(one), names(changed), strict=True):
        assert name != others
    assert names(steps(other, facts()))[0] != names(one)[0]
    assert steps(other, facts())["image"].do.params["file"] == "F"


def test_images_of_ecr_are_pushed_by_who_applies_and_pulled_by_the_execution_role() -> None:
    given = facts()
    found = steps(spec(name="train", container=BUILD), given).values()

    client = {s["Sid"]: s for s in policy.policy(found, given.options)["Statement"]}
    job = {s["Sid"]: s for s in policy.job_policy(found, given.options)["Statement"]}

    repository = ["arn:aws:ecr:eu-central-1:123456789012:repository/runspec/train"]
    assert client["Images"]["Resource"] == repository
    assert {"ecr:PutImage", "ecr:BatchGetImage"} <= {*client["Images"]["Action"]}
    assert client["Repository"]["Resource"] == repository
    assert "ecr:CreateRepository" in client["Repository"]["Action"]
    assert client["Registry"]["Action"] == ["ecr:GetAuthorizationToken"]
    assert job["ExecutionImages"]["Resource"] == repository


def test_a_repository_of_the_profile_may_be_neither_made_nor_deleted() -> None:
    given = facts(images=f"{HOST}/team")

    printed = policy.policy(steps(spec(container=BUILD), given).values(), given.options)

    statements = {s["Sid"]: s for s in printed["Statement"]}
    assert "ecr:PutImage" in statements["Images"]["Action"]
    assert statements["Images"]["Resource"][0].endswith(":repository/team")
    assert "Repository" not in str(printed).replace("Repositories", "")


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"images": REHEARSED}, "a rehearsal builds and pushes no image"),
        (
            {"job_role": None, "execution_role": None, "instance_role": None},
            "the profile names no account",
        ),
        (
            {"images": HOST.replace("central", "west") + "/a"},
            "is not in eu-central-1, where the job runs",
        ),
    ],
)
def test_reasons_against_a_push_are_reported_by_check(profile: dict[str, Any], words: str) -> None:
    found = check.problems(spec(container=BUILD), facts(**profile))

    assert [p for p in found if words in p.what and p.hint]


def test_validate_without_a_profile_has_no_problem_with_build() -> None:
    """`runspec validate` knows no profile: then the check is that of the spec alone."""
    found = check.problems(spec(container=BUILD), Facts(AwsOptions(), complete=False))

    assert [p.path for p in found if p.severity == "error"] == []


def test_an_entrypoint_of_a_built_image_is_refused_without_a_name_that_it_lacks() -> None:
    job = {"apiVersion": "runspec/v1", "name": "n", "provider": "aws-batch"}
    wanted, _ = documents.parse_spec({**job, "container": {**BUILD, "entrypoint": "image"}})
    assert wanted is not None

    (mine,) = [p for p in check.problems(wanted, facts()) if p.path == ("container", "entrypoint")]

    assert mine.hint is not None
    assert "None" not in mine.hint
    assert "end the Containerfile with ENTRYPOINT []" in mine.hint
