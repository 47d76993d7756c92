"""Secrets that lie beside the run in its store, in a file that the user alone can read."""

import os
from typing import MutableMapping

from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket

KEY = "RUNSPEC_SECRETS"  # the key of the file: NAME=value, and a NUL after each


def fill(bucket: Bucket, env: MutableMapping[str, str]) -> None:
    """Put the secrets into *env*. Raises Failure where they are not there."""
    key = env.pop(KEY, "")
    content = bucket.get(key) if key else b""
    if content is None:
        raise Failure("the secrets of the run are not in its store any more")
    for line in content.split(b"\0"):
        name, is_one, value = line.partition(b"=")
        if is_one:
            env[os.fsdecode(name)] = os.fsdecode(value)
