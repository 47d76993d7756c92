"""Problems of the instance types that the profile names: too small ones, and GPUs without a driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runspec_aws.options import AwsOptions
from runspec_aws.resources import room
from runspec_aws.resources.instance_types import NO_DRIVER, known
from runspec_aws.resources.request import needs
from runspec_jobs.provider import Machine, Problem, Spec

HINT = "name a larger type, or ask for less"


def problems(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """Yield why no machine of `instance_types` would ever run a node of *spec*, as far as it is known."""
    if not options.instance_types or options.fargate or options.queue:
        return
    if not options.ami:
        yield from _drivers(options)
    names = room.types(spec, options)
    if all(room.named(name) for name in names):
        yield from _size(spec, options, [m for name in names for m in holding(name, spec, options)])


def holding(name: str, spec: Spec, options: AwsOptions) -> tuple[Machine, ...]:
    """Return the machines of a type or family that hold a node of *spec*, the smallest one first."""
    wanted = needs(spec, options)
    found = [machine for machine in room.named(name) if room.per_machine(machine, wanted)]
    return tuple(sorted(found, key=lambda m: (m.gpus or 0, m.cpus or 0, m.name)))


def _drivers(options: AwsOptions) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html"""
    for name in options.instance_types:
        machine = known(name)
        if machine and machine.gpu in NO_DRIVER:
            what = f"AWS Batch has no AMI for machines like {name}, with the GPU {machine.gpu}, any more"
            yield Problem(("provider",), what, "set ami to your own AMI, or name another type")


def _size(spec: Spec, options: AwsOptions, found: Sequence[Machine]) -> Iterator[Problem]:
    """Yield the problem of a job that stays RUNNABLE, if *found*, the machines that hold a node, are none or others."""
    kind = spec.cluster.gpu_type
    if not found and not room.own_machines(spec):  # of these, `room` tells it
        wanted = room.shown(needs(spec, options))
        yield Problem(("cluster",), f"no type of instance_types holds a node: {wanted}", HINT)
    elif found and kind and not any((m.gpu or "").upper() == kind.upper() for m in found):
        what = f"'{kind}', but no type of instance_types that is large enough has it"
        yield Problem(("cluster", "gpu_type"), what, "name another type, or remove gpu_type")
