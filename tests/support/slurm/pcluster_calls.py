"""Calls aws-parallelcluster's own API, many times in one process; runs in its environment and not in ours.

Standard input is a JSON list of calls, standard output the list of their answers: a call that is refused is answered
with what the CLI would have printed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import boto3


def main() -> None:
    calls = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr  # the library prints
    json.dump([answer(**call) for call in calls], out, default=str)


def answer(op: str, **params: Any) -> Any:
    if op in HANDS:
        return HANDS[op](**params)
    import pcluster.lib
    from pcluster.api import encoder, errors

    try:
        return getattr(pcluster.lib, op)(**params)
    except Exception as exc:  # noqa: BLE001 - as the CLI does
        return json.loads(encoder.JSONEncoder().encode(errors.exception_message(exc)))


def fleet(cluster: str, status: str) -> None:
    """Say how the machines are: in a real cluster the head node does.

    What stands there is of pcluster/models/compute_fleet_status_manager.py.
    """
    data = {"status": status, "lastStatusUpdatedTime": "2026-01-01 00:00:00+00:00"}
    table = boto3.resource("dynamodb").Table(f"parallelcluster-{cluster}")
    table.put_item(Item={"Id": "COMPUTE_FLEET", "Data": data})


def head(cluster: str, ami: str, subnet: str) -> None:
    """Start what stands for the head node: a real stack does. Its address is moto's."""
    tags = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": "HeadNode"}
    boto3.client("ec2").run_instances(
        ImageId=ami,
        MinCount=1,
        MaxCount=1,
        InstanceType="m6i.xlarge",
        SubnetId=subnet,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
        ],
    )


HANDS: dict[str, Callable[..., None]] = {"fleet": fleet, "head": head}

if __name__ == "__main__":
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    main()
