"""Names of clusters by the content of what they are, and requests in the words of the library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider import Path, Request, Spec

VERSION = "3.16.1"  # of aws-parallelcluster: an update must be of the version that made the cluster
TAG = "runspec:configuration"  # holds the digest of what the cluster is; a cluster without it is not ours


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def tagged(configuration: Mapping[str, Any]) -> str | None:
    """Return the digest that *configuration* carries as a tag."""
    tags = {tag["Key"]: tag["Value"] for tag in configuration.get("Tags", ())}
    return tags.get(TAG)


def call(operation: str, **params: Any) -> Request:
    """Return a call of the library's operation of that name, with the names of its API.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/api-reference-v3.html
    """
    return Request("parallelcluster", operation, params)


def at(spec: Spec, *keys: str) -> Path:
    """Return where a setting of ours stands: in the spec, or, for all that is in the profile, `provider`.

    >>> at(Spec.model_construct(providers={"parallelcluster": {"os": "x"}}), "os")
    ('providers', 'parallelcluster', 'os')
    """
    own: Any = spec.providers.get("parallelcluster", {})
    for key in keys:
        if not isinstance(own, Mapping) or key not in own:
            return ("provider",)
        own = own[key]
    return ("providers", "parallelcluster", *keys)
