"""Launch templates for machines with a disk, network adapters, a reservation, or file systems."""

from __future__ import annotations

from typing import Any

from runspec_aws import timing
from runspec_aws.infrastructure import lustre
from runspec_aws.options import AwsOptions
from runspec_aws.resources.request import adapters
from runspec_jobs.provider import Request, Scope, Spec, Step, content_name

GIB = 1 << 30
LEAST_DISK_GIB = 30  # EC2 refuses a volume smaller than the snapshot of the AMI
ROOT_DEVICE = "/dev/xvda"  # of the ECS-optimized Amazon Linux 2023


def data(spec: Spec, options: AwsOptions) -> dict[str, Any]:
    """Return the content of the launch template for *spec*; empty if it needs none."""
    found: dict[str, Any] = {}
    if options.fargate:
        return found
    if spec.cluster.disk:
        volume = {"VolumeSize": _gib(spec), "VolumeType": "gp3", "DeleteOnTermination": True}
        device = options.root_device or ROOT_DEVICE
        found["BlockDeviceMappings"] = [{"DeviceName": device, "Ebs": volume}]
    if options.efa and not options.launch_template:
        found["NetworkInterfaces"] = _interfaces(adapters(spec, options), options)
    if options.reservation:
        # A machine outside the reservation is not started:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-launch.html
        target = {"CapacityReservationId": options.reservation}
        found["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    if options.capacity_block:
        # https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html
        found["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if mounted := lustre.systems(spec, options):
        found["UserData"] = lustre.user_data(mounted, options.region or "")
        # Otherwise, a machine that shuts itself down is only stopped, and its disk still costs money:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_ChangingInstanceInitiatedShutdownBehavior.html
        found["InstanceInitiatedShutdownBehavior"] = "terminate"
    return found


def _gib(spec: Spec) -> int:
    return max(LEAST_DISK_GIB, -(-(spec.cluster.disk or 0) // GIB))


def _interfaces(count: int, options: AwsOptions) -> list[dict[str, Any]]:
    """Return one adapter for each network card, because EC2 attaches none by default.

    The first one has an IP address as well; the others need none. Security groups are set here, because a template
    with interfaces cannot set them for the whole machine.

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
    if options.reservation:
        kind = "Capacity Block" if options.capacity_block else "capacity reservation"
        parts.append(f"the {kind} {options.reservation}")
    parts += [f"FSx for Lustre {system.id}" for system in lustre.systems(spec, options)]
    template = {"LaunchTemplateName": name(spec, options)}
    return Step(
        "template",
        f"make a launch template with {' and '.join(parts)}",
        Scope.SITE,
        Request("ec2", "create_launch_template", {**template, "LaunchTemplateData": made}),
        Request("ec2", "delete_launch_template", template),
        timing.DEFAULT.settle_s,
    )


def name(spec: Spec, options: AwsOptions) -> str:
    return content_name("machine", data(spec, options))
