"""moto's server with what `pcluster` asks for and moto lacks.

Each addition says which checks of `pcluster` it makes meaningless.

What is real of a run against it: the library's own schema, validators, templates, change sets and update policy.
What is not: whether a cluster would come up, or any machine start. `CREATE_COMPLETE` here says that the template was
made and could be read, and nothing more.

Started as a program, with the number of a socket that it inherits:
`python -m tests.support.slurm.moto_parallelcluster 3`.
"""

from __future__ import annotations

import sys
import types
from typing import Any

# 1. moto's CloudFormation imports its API Gateway, which imports a validator of OpenAPI that no test here needs.
#    Meaningless: nothing; API Gateway is not asked.
for name in ("openapi_spec_validator", "openapi_spec_validator.validation.exceptions"):
    module: Any = types.ModuleType(name)
    module.validate, module.OpenAPIValidationError = (lambda *a, **k: None), Exception
    sys.modules.setdefault(name, module)

# 2. Placement groups: those of the rehearsal of AWS Batch, which refuse a name that they do not know.
#    Meaningless: nothing that these tests say of placement groups.
from moto.cloudformation import parsing  # noqa: E402
from moto.core.common_models import CloudFormationModel  # noqa: E402
from moto.core.responses import ActionResult  # noqa: E402
from moto.ec2.exceptions import EC2ClientError  # noqa: E402
from moto.ec2.responses import EC2Response  # noqa: E402
from moto.ec2.responses._base_response import EC2BaseResponse  # noqa: E402
from moto.ec2.responses.instances import InstanceResponse  # noqa: E402

import runspec_emulators.aws.moto_ec2  # noqa: F401, E402 - its placement groups
from runspec_emulators.aws.moto_server import serve  # noqa: E402

RESERVATIONS = {"cr-0123456789abcdef0": ("c6i.4xlarge", 4)}  # id: type of machine, how many


class Reservations(EC2BaseResponse):
    """3. Capacity reservations, of which one is known. Meaningless: whether it has what a queue needs at a time."""

    def describe_capacity_reservations(self) -> ActionResult:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityReservations.html"""
        wanted = self._get_param("CapacityReservationIds") or list(RESERVATIONS)
        found = []
        for one in wanted:
            if one not in RESERVATIONS:
                what = f"The capacity reservation ID '{one}' does not exist."
                raise EC2ClientError("InvalidCapacityReservationId.NotFound", what)
            kind, count = RESERVATIONS[one]
            found.append(
                {
                    "CapacityReservationId": one,
                    "InstanceType": kind,
                    "InstancePlatform": "Linux/UNIX",
                    "AvailabilityZone": "us-east-1a",
                    "TotalInstanceCount": count,
                    "AvailableInstanceCount": count,
                    "State": "active",
                    "ReservationType": "default",
                }
            )
        return ActionResult({"CapacityReservations": found})


for call in ("describe_capacity_reservations",):
    setattr(EC2Response, call, getattr(Reservations, call))

# 4. RunInstances looks at no disks: moto knows neither those of AMIs nor those that are left out.
#    Meaningless: whether disks that a configuration asks for can be had with an AMI.
InstanceResponse._parse_block_device_mapping = lambda self: []  # type: ignore[method-assign]

# 5. Of a template only the table of the fleet's state is made; all else, nested stacks too, is a name.
#    Meaningless: that anything else of a stack could be made; no machine is, and no file system.
MADE = ("AWS::DynamoDB::Table",)


class Name(CloudFormationModel):
    """What a template names, and nobody makes."""

    __module__ = "moto.cloudformation"  # moto sorts its models by that

    def __init__(self, name: str) -> None:
        self.physical_resource_id = self.name = name

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @staticmethod
    def cloudformation_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, attribute_name: str) -> str:
        return f"{self.name}.{attribute_name}"

    @classmethod
    def create_from_cloudformation_json(cls, resource_name: str, *rest: Any, **more: Any) -> Name:
        return cls(resource_name)

    @classmethod
    def update_from_cloudformation_json(
        cls, original_resource: Any, new_resource_name: str, *rest: Any, **more: Any
    ) -> Name:
        return cls(new_resource_name)

    @classmethod
    def delete_from_cloudformation_json(cls, *rest: Any, **more: Any) -> None:
        return None


whole = parsing.resource_class_from_type


def made_or_named(resource_type: str) -> type[CloudFormationModel]:
    return whole(resource_type) if resource_type in MADE else Name


parsing.resource_class_from_type = made_or_named

if __name__ == "__main__":
    serve(int(sys.argv[1]))
