"""What the fault proxy must know of AWS for a setup: it asks EC2, IAM, ECR and quotas as well, which have one path."""

from __future__ import annotations

from urllib.parse import parse_qs

import boto3

from tests.faults import wire_aws
from tests.faults.boundaries import Boundaries
from tests.support.fault_proxy import CountedRequests, Provider, Service, install
from tests.support.http_server import ReceivedRequest

ERRORS = {
    "throttled": (400, "Throttling"),
    "error": (500, "InternalFailure"),
    "expired": (403, "ExpiredToken"),
}
# https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html
QUERY = Service(
    ERRORS,
    "<ErrorResponse><Error><Code>CODE</Code><Message>no</Message></Error></ErrorResponse>",
)
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
EC2 = Service(
    {
        "throttled": (503, "RequestLimitExceeded"),
        "error": (500, "InternalError"),
        "expired": (400, "RequestExpired"),
    },
    "<Response><Errors><Error><Code>CODE</Code><Message>no</Message></Error></Errors>"
    "<RequestID>0</RequestID></Response>",
)


def read(request: ReceivedRequest) -> tuple[Service, str] | None:
    """Return the service that a signature names, and a name for what is asked of it; None for S3 and AWS Batch."""
    scope = request.headers.get("authorization", "").partition("Credential=")[2].split("/")
    of = scope[3] if len(scope) > 3 else ""
    if of in ("", "s3", "batch"):
        return None
    if target := request.headers.get("x-amz-target"):
        return wire_aws.BATCH_AND_LOGS, f"{request.method} /{of} {target.rpartition('.')[2]}"
    action = parse_qs(request.body.decode())["Action"][0]
    return (EC2 if of == "ec2" else QUERY), f"{request.method} /{of} {action}"


AWS = Provider(wire_aws.service, wire_aws.name, read)


def warm() -> None:
    wire_aws.warm()
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    for one in ("ec2", "iam", "ecr", "sts", "service-quotas"):
        boto3.client(one, region_name="eu-central-1", **keys)


def installed(steps: Boundaries, at: int | None, fault: str | None) -> None:
    """Count the requests of this process; number *at*, from 1, goes wrong as *fault* says."""
    wire_aws.hurry(fault, settle_s=0.5)  # what this account has made is there at once
    install(AWS, CountedRequests(steps, at, fault))
