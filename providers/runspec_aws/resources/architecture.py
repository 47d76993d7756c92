"""The processor architecture of the machines, for which their AMI and the job's image must be made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_aws.options import AwsOptions
from runspec_aws.resources.instance_types import find_machines
from runspec_jobs.provider import Problem

# Names that AWS Batch accepts for instance types that it selects by itself:
# https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
BUNDLES: Mapping[str, str] = {
    "optimal": "x86_64",
    "default_x86_64": "x86_64",
    "default_arm64": "arm64",
}
ARM = "arm64"


def problems(options: AwsOptions) -> Iterator[Problem]:
    """Yield problems of the architecture of the instance types in the profile; runspec itself chooses x86-64.

    AWS Batch selects the AMI of each machine by its architecture, but a job has one image.
    """
    if options.queue or options.fargate:
        return
    architectures = {one for name in options.instance_types for one in _architectures(name)}
    if len(architectures) > 1:
        what = "the profile's instance_types are of several architectures, and a job has one image"
        hint = "name types of one architecture: x86-64, or arm64 (Graviton)"
        yield Problem(("provider",), what, hint)
    elif architectures == {ARM}:
        what = "the machines are arm64 (Graviton): make sure that the image is for arm64"
        yield Problem(("container", "image"), what, severity="note")
    for name in options.instance_types:
        if not options.ami and _without_ami(name):
            what = f"AWS Batch has no AMI for {name}"
            hint = (
                "set providers: {aws-batch: {ami: ami-...}} with your own AMI, or name other types"
            )
            yield Problem(("provider",), what, hint)


def _architectures(name: str) -> frozenset[str]:
    """Return the architectures of an instance type, family or bundle; none if they are unknown."""
    if name in BUNDLES:
        return frozenset({BUNDLES[name]})
    return frozenset(m.architecture for m in find_machines(name) if m.architecture)


def _without_ami(name: str) -> bool:
    """Return whether the AMIs of AWS Batch lack an instance type or family: A1, and Graviton with GPUs.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html
    """
    return any(m.architecture == ARM and (m.family == "a1" or m.gpus) for m in find_machines(name))
