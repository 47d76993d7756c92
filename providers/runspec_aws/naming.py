"""Requests in the words of the SDK, and the tags of what is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Request

# https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html: 128 and 256 characters.
UNFIT = re.compile(r"[^\w .:/=+@-]", re.ASCII)


def batch(operation: str, **params: Any) -> Request:
    """Return a call of botocore's Batch client."""
    return Request("batch", operation, params)


def s3(operation: str, **params: Any) -> Request:
    return Request("s3", operation, params)


def tags(options: AwsOptions, **own: str) -> dict[str, str]:
    """Return the tags of the profile and of runspec, without characters that tags may not contain."""
    found: Mapping[str, str] = {**options.tags, **{f"runspec:{k}": v for k, v in own.items()}}
    return {UNFIT.sub("_", k)[:128]: UNFIT.sub("_", v)[:256] for k, v in found.items()}
