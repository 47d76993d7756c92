"""Digests of cluster configurations, and requests to the operations of the library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider import Path, Request, Spec

VERSION = "3.16.1"  # of aws-parallelcluster: only the version that made a cluster can update it
# The digest of the configuration with the sizes of its machines, and with what was requested of them. A cluster
# without the first tag was not made by runspec.
TAG, REQUEST_TAG = "runspec:configuration", "runspec:request"


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_same(tags: Mapping[str, str], configuration: Mapping[str, Any]) -> bool:
    """Return whether a cluster with *tags* holds what a cluster with *configuration* would, so that it may stay.

    >>> is_same({TAG: "a", REQUEST_TAG: "b"}, {"Tags": [{"Key": REQUEST_TAG, "Value": "b"}]})
    True
    """
    wanted = {tag["Key"]: tag["Value"] for tag in configuration.get("Tags", ())}
    return any(key in tags and tags[key] == wanted.get(key) for key in (TAG, REQUEST_TAG))


def call(operation: str, **params: Any) -> Request:
    """Return a request for an operation of the library, with the parameter names of its API.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/api-reference-v3.html
    """
    return Request("parallelcluster", operation, params)


def at(spec: Spec, *keys: str) -> Path:
    """Return the path of a setting: in the spec if it is set there, or else `provider`.

    >>> at(Spec.model_construct(providers={"parallelcluster": {"os": "x"}}), "os")
    ('providers', 'parallelcluster', 'os')
    """
    settings: Any = spec.providers.get("parallelcluster", {})
    for key in keys:
        if not isinstance(settings, Mapping) or key not in settings:
            return ("provider",)
        settings = settings[key]
    return ("providers", "parallelcluster", *keys)
