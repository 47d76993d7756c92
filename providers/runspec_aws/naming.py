"""Names of what is made, by the content of what it is, and requests in the SDK's own words."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Request

# https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html: 128 and 256 characters.
UNFIT = re.compile(r"[^\w .:/=+@-]", re.ASCII)


def short_hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def named(word: str, value: Any) -> str:
    """Give `runspec-WORD-HASH`: equal content has an equal name, and runs share it."""
    return f"runspec-{word}-{short_hash(value)}"


def batch(operation: str, **params: Any) -> Request:
    """Give a call of botocore's client of that name, as a method of it."""
    return Request("batch", operation, params)


def s3(operation: str, **params: Any) -> Request:
    return Request("s3", operation, params)


def in_turn(*calls: Request) -> Request:
    """Give several calls as one, for an undo that takes more than one."""
    return Request("runspec", "in_turn", {"calls": [call._asdict() for call in calls]})


def each(request: Request) -> tuple[Request, ...]:
    """Give the calls that *request* stands for."""
    if request.operation == "in_turn":
        return tuple(Request(**call) for call in request.params["calls"])
    return (request,)


def tags(options: AwsOptions, **own: str) -> dict[str, str]:
    """Give the tags of the profile and our own, in characters that tags may have."""
    found: Mapping[str, str] = {**options.tags, **{f"runspec:{k}": v for k, v in own.items()}}
    return {UNFIT.sub("_", k)[:128]: UNFIT.sub("_", v)[:256] for k, v in found.items()}
