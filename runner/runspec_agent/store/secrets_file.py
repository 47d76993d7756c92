"""Secrets in a file of the run in its store, which only the user can read."""

import os
from typing import MutableMapping

from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket

KEY = "RUNSPEC_SECRETS"  # the key of the file, which has NAME=value and a NUL for each secret


def fill(bucket: Bucket, env: MutableMapping[str, str]) -> None:
    """Put the secrets into *env*. Raise Failure if the file does not exist."""
    key = env.pop(KEY, "")
    content = bucket.get(key) if key else b""
    if content is None:
        raise Failure("the secrets of this run have been deleted from its store")
    for line in content.split(b"\0"):
        name, is_one, value = line.partition(b"=")
        if is_one:
            env[os.fsdecode(name)] = os.fsdecode(value)
