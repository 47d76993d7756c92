"""Launch templates for machines with a disk, network adapters, a reservation, or file systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_aws import timing
from runspec_aws.decision import Decision
from runspec_aws.infrastructure import lustre
from runspec_aws.options import AwsOptions
from runspec_ec2 import VOLUMES
from runspec_jobs.provider import Request, Scope, Step, content_name

ROOT_DEVICE = "/dev/xvda"  # of the ECS-optimized Amazon Linux 2023


def content(decision: Decision, options: AwsOptions) -> dict[str, Any]:
    """Return the content of the launch template for *decision*; empty if it needs none."""
    template: dict[str, Any] = {}
    if options.fargate:
        return template
    if decision.disk_gib:
        volume: dict[str, Any] = {
            "VolumeSize": decision.disk_gib,
            **VOLUMES[decision.disk_tier].fields,
        }
        volume["DeleteOnTermination"] = True
        device = options.root_device or ROOT_DEVICE
        template["BlockDeviceMappings"] = [{"DeviceName": device, "Ebs": volume}]
    if options.efa and not options.launch_template:
        template["NetworkInterfaces"] = _interfaces(decision.adapters, options)
    if options.reservation:
        # A machine outside the reservation is not started:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-launch.html
        target = {"CapacityReservationId": options.reservation}
        template["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    if options.capacity_block:
        # https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html
        template["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if mounted := lustre.systems(decision.shared, options):
        template["UserData"] = lustre.user_data(mounted, options.region or "")
        # Otherwise, a machine that shuts itself down is only stopped, and its disk still costs money:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_ChangingInstanceInitiatedShutdownBehavior.html
        template["InstanceInitiatedShutdownBehavior"] = "terminate"
    return template


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


def step(template: Mapping[str, Any], decision: Decision, options: AwsOptions) -> Step:
    kind = f" of the tier {decision.disk_tier}" if decision.disk_tier else ""
    parts = [f"{decision.disk_gib} GiB of disk{kind}"] if "BlockDeviceMappings" in template else []
    if count := len(template.get("NetworkInterfaces", ())):
        parts.append(f"{count} Elastic Fabric Adapter{'s' * (count > 1)}")
    if options.reservation:
        kind = "Capacity Block" if options.capacity_block else "capacity reservation"
        parts.append(f"the {kind} {options.reservation}")
    parts += [f"FSx for Lustre {system.id}" for system in lustre.systems(decision.shared, options)]
    named = {"LaunchTemplateName": name(template)}
    return Step(
        "template",
        f"make a launch template with {' and '.join(parts)}",
        Scope.SITE,
        Request("ec2", "create_launch_template", {**named, "LaunchTemplateData": template}),
        Request("ec2", "delete_launch_template", named),
        timing.DEFAULT.settle_s,
    )


def name(template: Mapping[str, Any]) -> str:
    return content_name("machine", template)
