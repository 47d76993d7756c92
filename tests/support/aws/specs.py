"""Specs for AWS Batch, and an account that is nobody's."""

from __future__ import annotations

from typing import Any

from runspec_aws import check
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Facts, Problem, Source, Spec
from runspec_jobs.testing import documents

ROLE = "arn:aws:iam::123456789012:role/r"
PROFILE: dict[str, Any] = {
    "region": "eu-central-1",
    "bucket": "jobs",
    "job_role": ROLE,
    "execution_role": ROLE,
    "instance_role": ROLE.replace("role/", "instance-profile/"),
    "subnets": ["subnet-1"],
    "security_groups": ["sg-1"],
}


def spec(**fields: Any) -> Spec:
    job: dict[str, Any] = {"apiVersion": "runspec/v1", "name": "n", "provider": "aws-batch"}
    job |= {} if "run" in fields else {"command": ["echo"]}
    found, problems = documents.parse_spec(documents.merge(job, fields))
    assert found is not None, problems
    return found


def problems(wanted: Spec, **profile: Any) -> list[Problem]:
    options = AwsOptions.model_validate({**PROFILE, **profile})
    sources = {m.name: Source("sha256:0", 1, 1) for m in wanted.mounts}
    return list(check.problems(wanted, Facts(options, sources)))


def errors(wanted: Spec, **profile: Any) -> list[tuple[Any, ...]]:
    return [p.path for p in problems(wanted, **profile) if p.severity == "error"]


def notes(wanted: Spec, **profile: Any) -> list[tuple[Any, ...]]:
    return [p.path for p in problems(wanted, **profile) if p.severity == "note"]


SECRET = "aws-sm:arn:aws:secretsmanager:eu-central-1:123456789012:secret:hf-a1b2c3"
STORE = {"name": "d", "source": "store://sets/d", "target": "/d"}
SHARED = {"name": "w", "source": "shared://work/a", "target": "/w"}
