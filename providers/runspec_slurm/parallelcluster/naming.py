"""Digests of cluster configurations, and requests to the operations of the library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider import Path, Request, Spec

VERSION = "3.16.1"  # of aws-parallelcluster: only the version that made a cluster can update it
TAG = "runspec:configuration"  # the digest of the configuration; a cluster without this tag was not made by runspec


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def tagged(configuration: Mapping[str, Any]) -> str | None:
    """Return the digest in the tags of *configuration*, or None."""
    tags = {tag["Key"]: tag["Value"] for tag in configuration.get("Tags", ())}
    return tags.get(TAG)


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
    own: Any = spec.providers.get("parallelcluster", {})
    for key in keys:
        if not isinstance(own, Mapping) or key not in own:
            return ("provider",)
        own = own[key]
    return ("providers", "parallelcluster", *keys)
