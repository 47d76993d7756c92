"""The launch template of machines that are more than their type: a disk, adapters, a reservation, file systems."""

from __future__ import annotations

from typing import Any

from runspec_aws import timing
from runspec_aws.infrastructure import lustre
from runspec_aws.naming import named
from runspec_aws.options import AwsOptions
from runspec_aws.resources.request import adapters
from runspec_jobs.provider import Request, Scope, Spec, Step

GIB = 1 << 30
LEAST_DISK_GIB = 30  # of that AMI: EC2 refuses a smaller volume of its snapshot
ROOT_DEVICE = "/dev/xvda"  # of the ECS-optimized Amazon Linux 2023


def data(spec: Spec, options: AwsOptions) -> dict[str, Any]:
    """Give what the machines of *spec* are beyond their type; nothing when any machine will do."""
    found: dict[str, Any] = {}
    if options.fargate:
        return found
    if spec.cluster.disk:
        volume = {"VolumeSize": _gib(spec), "VolumeType": "gp3", "DeleteOnTermination": True}
        found["BlockDeviceMappings"] = [{"DeviceName": ROOT_DEVICE, "Ebs": volume}]
    if options.efa and not options.launch_template:
        found["NetworkInterfaces"] = _interfaces(adapters(spec, options), options)
    if options.reservation:
        # A machine that is not in it is not started:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-launch.html
        target = {"CapacityReservationId": options.reservation}
        found["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    if mounted := lustre.systems(spec, options):
        found["UserData"] = lustre.user_data(mounted, options.region or "")
        # Where nothing is said, a machine that shuts itself down is stopped, and its disk is kept and paid for:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_ChangingInstanceInitiatedShutdownBehavior.html
        found["InstanceInitiatedShutdownBehavior"] = "terminate"
    return found


def _gib(spec: Spec) -> int:
    return max(LEAST_DISK_GIB, -(-(spec.cluster.disk or 0) // GIB))


def _interfaces(count: int, options: AwsOptions) -> list[dict[str, Any]]:
    """Give one adapter for each network card: EC2 attaches none that is not asked for.

    The first one has an address as well; the others need none. Groups are named here or for the
    whole machine, and with interfaces only here.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
    """
    return [
        {
            "NetworkCardIndex": card,
            "DeviceIndex": 1 if card else 0,
            "InterfaceType": "efa-only" if card else "efa",
            "Groups": list(options.security_groups),
            "DeleteOnTermination": True,
        }
        for card in range(count)
    ]


def step(spec: Spec, options: AwsOptions) -> Step:
    made = data(spec, options)
    parts = [f"{_gib(spec)} GiB of disk"] if "BlockDeviceMappings" in made else []
    if count := len(made.get("NetworkInterfaces", ())):
        parts.append(f"{count} Elastic Fabric Adapter{'s' * (count > 1)}")
    parts += [f"the capacity reservation {options.reservation}"] if options.reservation else []
    parts += [f"FSx for Lustre {system.id}" for system in lustre.systems(spec, options)]
    template = {"LaunchTemplateName": name(spec, options)}
    return Step(
        "template",
        f"make a launch template with {' and '.join(parts)}",
        Scope.SITE,
        Request("ec2", "create_launch_template", {**template, "LaunchTemplateData": made}),
        Request("ec2", "delete_launch_template", template),
        timing.SETTLE_S,
    )


def name(spec: Spec, options: AwsOptions) -> str:
    return named("machine", data(spec, options))
