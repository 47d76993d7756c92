"""Regions of which the catalogue does not say what EC2 offers there, and how a plan learns it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from runspec_aws.options import AwsOptions
from runspec_ec2 import ec2_catalogue
from runspec_jobs.provider import Facts, Problem

OFFERED = "offered"  # the key of `Facts.survey`: names of the instance types that EC2 offers in the region
# How AWS Batch refuses an environment because of one instance type; it is not documented, and issues cite it:
# https://github.com/outerbounds/metaflow-tools/issues/70 and https://github.com/aws/amazon-genomics-cli/issues/209
ONE_OF = re.compile(r"nstance type can only be one of \[([^\]]*)\]")


def is_asked(options: AwsOptions) -> bool:
    """Return whether EC2 has to be asked what it offers: runspec chooses types, in a region that the table lacks."""
    own = options.queue or options.instance_types or options.fargate
    return not own and options.region is not None and options.region not in ec2_catalogue().offered


def with_offers(facts: Facts) -> Facts:
    """Return *facts* whose options have the instance types that discovery found in the region, if it found any."""
    offered = facts.survey.get(OFFERED)
    return facts if offered is None else facts._replace(options=facts.options.offering(offered))


def problems(facts: Facts) -> Iterator[Problem]:
    """Yield a problem for a region of which nothing is known: one type that it lacks refuses the whole environment."""
    options: AwsOptions = facts.options
    if is_asked(options) and OFFERED not in facts.survey:
        what = f"runspec does not know which instance types {options.region} offers, and could not ask EC2"
        hint = (
            "log in with the right ec2:DescribeInstanceTypeOfferings, or set instance_types in the profile, "
            "such as [m7i.large, m7i.xlarge]"
        )
        yield Problem(("provider",), what, hint)


def way_out(refusal: str, asked: Iterable[str]) -> str | None:
    """Return the hint for a *refusal* of the instance types *asked*, some of which AWS Batch does not take.

    >>> way_out("Instance type can only be one of [m5, m5.large, c5]", ["c7i.large", "m5.large"])
    'set instance_types: [m5.large] in the profile: AWS Batch takes these of the types that were chosen'
    """
    listed = ONE_OF.search(refusal)
    if listed is None:
        return None
    taken = {name.strip() for name in listed[1].split(",")}
    both = [name for name in asked if name in taken or name.partition(".")[0] in taken]
    if not both:
        near = ", ".join(sorted(name for name in taken if "." in name)[:5] or sorted(taken)[:5])
        return (
            f"set instance_types in the profile to some that AWS Batch takes there, such as {near}"
        )
    names = ", ".join(both)
    return f"set instance_types: [{names}] in the profile: AWS Batch takes these of the types that were chosen"
