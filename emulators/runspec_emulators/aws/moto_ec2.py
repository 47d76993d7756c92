"""Placement groups, which moto's EC2 lacks; importing this module adds them.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
"""

from __future__ import annotations

import threading
import uuid
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.responses._base_response import EC2BaseResponse

Group = dict[str, Any]
Groups = dict[str, Group]
_lock = threading.Lock()
_known: dict[tuple[str, str], Groups] = {}


class PlacementGroups(EC2BaseResponse):
    """The calls, as moto has calls."""

    def create_placement_group(self) -> ActionResult:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html"""
        name = self._get_param("GroupName")
        with _lock:
            groups = self._groups()
            if name in groups:
                what = f"The Placement Group '{name}' already exists."
                raise EC2ClientError("InvalidPlacementGroup.Duplicate", what)
            groups[name] = {
                "GroupName": name,
                "GroupId": f"pg-{uuid.uuid4().hex[:17]}",
                "Strategy": self._get_param("Strategy") or "cluster",
                "State": "available",
            }
            return ActionResult({"PlacementGroup": groups[name]})

    def describe_placement_groups(self) -> ActionResult:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribePlacementGroups.html"""
        with _lock:
            groups = self._groups()
            names = self._get_param("GroupNames") or list(groups)
            return ActionResult({"PlacementGroups": [_one(groups, name) for name in names]})

    def delete_placement_group(self) -> ActionResult:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeletePlacementGroup.html"""
        with _lock:
            groups = self._groups()
            del groups[_one(groups, self._get_param("GroupName"))["GroupName"]]
            return ActionResult({})

    def _groups(self) -> Groups:
        return _known.setdefault((self.current_account, self.region), {})


def _one(groups: Groups, name: str) -> Group:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"""
    if name not in groups:
        what = f"The Placement Group '{name}' is unknown."
        raise EC2ClientError("InvalidPlacementGroup.Unknown", what)
    return groups[name]


for call, function in vars(PlacementGroups).items():
    if not call.startswith("__"):
        setattr(EC2Response, call, function)
