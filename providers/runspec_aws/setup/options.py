"""What `runspec setup aws-batch --set NAME=VALUE` understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from runspec_aws.options import AwsOptions
from runspec_jobs.provider.settings import User, text_like

NAME = r"^[a-z][a-z0-9-]{0,19}$"
REPOSITORY = r"^[a-z0-9]+([._/-][a-z0-9]+)*$"
OWN_GROUP = "/runspec/jobs"
# Quotas in vCPUs, which are 0 for GPUs in a new account.
# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
QUOTAS: Mapping[str, str] = {
    "on-demand machines without GPUs": "L-1216C47A",
    "spot machines without GPUs": "L-34B43A08",
    "on-demand machines with GPUs (G and VT)": "L-DB2E81BA",
    "on-demand machines with GPUs (P)": "L-417A185B",
    "spot machines with GPUs (G and VT)": "L-3819A6DF",
    "spot machines with GPUs (P4, P3, P2)": "L-7212CCBC",
}

Prefix = Annotated[
    str, *text_like(NAME, "a name", "write lower case letters, digits and -, at most 20")
]
Repository = Annotated[
    str, *text_like(REPOSITORY, "a repository", "write its name alone, such as train")
]


class AwsSetup(AwsOptions):
    """What `runspec setup aws-batch --set NAME=VALUE` understands: the settings of a profile, and these."""

    name: User[Prefix] = Field(default="runspec", description="How names of resources begin.")
    network: User[Literal["default", "own"] | None] = Field(
        default=None,
        description="`default`: the default network (VPC) of the region. `own`: a network of its own. "
        "Without this field it is `own` if the region has no default network.",
    )
    repository: User[Repository | None] = Field(
        default=None, description="A repository of ECR to make, for images of your own."
    )
