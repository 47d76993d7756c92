"""EC2 instances: the machines of a compute environment, and the jobs that share them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runspec_emulators.aws.nodes.instance_types import Size


@dataclass(eq=False)
class Instance:
    """A machine. It is there while jobs run on it: environments have `minvCpus: 0` as far as jobs can tell."""

    type: str
    size: Size
    """What jobs can use of it."""
    single_tenant: bool = False
    """Whether it is a node of a multi-node job, beside which nothing runs."""
    address: str = ""
    id: str = ""
    arn: str = ""
    jobs: dict[str, Size] = field(default_factory=dict)
    """What each job on it has taken, by job id."""

    def has_room(self, wanted: Size) -> bool:
        return not self.single_tenant and self.size.less(self.jobs.values()).holds(wanted)


def exceeds(resources: Mapping[str, Any]) -> bool:
    """Return whether an environment may have one instance that leads beyond maxvCpus.

    "With any allocation strategy except BEST_FIT using On-Demand (EC2) compute resources, AWS Batch might need to
    exceed maxvCpus [...]. In this event, AWS Batch never exceeds maxvCpus by more than a single instance."
    ComputeResource, maxvCpus. With BEST_FIT, a job for a machine with more vCPUs than maxvCpus stays RUNNABLE for
    ever: github.com/aws/aws-parallelcluster/pull/929. BEST_FIT is what is used if nothing is said.
    """
    strategy = resources.get("allocationStrategy", "BEST_FIT")
    return bool(strategy != "BEST_FIT" or resources["type"] == "SPOT")
