"""What the fault proxy must know of AWS: how its services word errors, and names for requests."""

from __future__ import annotations

import functools
import re
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.httpsession import URLLib3Session
from botocore.loaders import JSONFileLoader

from runspec_aws import timing
from runspec_aws.client import AwsClient
from runspec_jobs.load import registry
from tests.faults.boundaries import Boundaries
from tests.support.fault_proxy import (
    HANG_S,
    CountedRequests,
    Provider,
    Service,
    install,
)

SETTLE_S = 3.0  # longer than any list lags in these tests

# https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html
BATCH_AND_LOGS = Service(
    {
        "throttled": (429, "TooManyRequestsException"),
        "error": (500, "InternalFailure"),
        "expired": (403, "ExpiredTokenException"),
    },
    '{"__type": "CODE", "message": "no"}',
    "x-amzn-errortype",
)
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
S3 = Service(
    {
        "throttled": (503, "SlowDown"),
        "error": (500, "InternalError"),
        "expired": (400, "ExpiredToken"),
    },
    "<Error><Code>CODE</Code><Message>no</Message></Error>",
)


def service(url: str) -> Service:
    """Return the service that *url* is of, by its path."""
    path = urlsplit(url).path
    return BATCH_AND_LOGS if path == "/" or path.startswith("/v1/") else S3


def name(method: str, url: str) -> str:
    """Return a name for a request that is the same in every run.

    >>> name("PUT", "http://127.0.0.1:99/jobs/w/runs/faults-a1b2c3/record.json")
    'PUT /jobs/*/record.json'
    >>> name("POST", "http://127.0.0.1:99/v1/submitjob")
    'POST /v1/submitjob'
    """
    path = re.sub(r"^https?://[^/]+", "", url).partition("?")[0]
    first, _, rest = path.lstrip("/").partition("/")
    if first == "v1" or not rest:
        return f"{method} {path}"
    return f"{method} /{first}/*/{rest.rpartition('/')[2]}"


AWS = Provider(service, name)


def warm() -> None:
    """Have botocore's descriptions of services in memory before anything is forked."""
    registry.load("aws-batch")
    JSONFileLoader.load_file = functools.cache(JSONFileLoader.load_file)
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    for one in ("batch", "s3", "logs"):
        boto3.client(one, region_name="eu-central-1", **keys)


def installed(steps: Boundaries, at: int | None, fault: str | None) -> None:
    """Count the requests of this process; number *at*, from 1, goes wrong as *fault* says."""
    steps.watch(AwsClient)
    hurry(fault)
    install(AWS, CountedRequests(steps, at, fault))


def hurry(fault: str | None, settle_s: float = SETTLE_S) -> None:
    """Have nobody wait for long: not between two looks, and if an answer never comes, not longer than HANG_S."""
    timing.DEFAULT = timing.Timing(settle_s=settle_s, quiet_s=0.2, poll_s=0.2)
    if fault == "hang after":
        _hurry()


def _hurry() -> None:
    patched: Any = URLLib3Session
    real = patched.__init__

    def opened(session: Any, *given: Any, **how: Any) -> None:
        real(session, *given, **{**how, "timeout": (HANG_S, HANG_S)})

    patched.__init__ = opened
