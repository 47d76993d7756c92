"""Keys of the files in the workspace, and requests about them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from runspec_jobs.provider import Facts, Request, Spec, inside_zipapp

INSIDE_SHA256 = hashlib.sha256(inside_zipapp()).hexdigest()
INSIDE = f"inside/{INSIDE_SHA256}.pyz"


def environment(spec: Spec, facts: Facts) -> str:
    """Return the folder of the environments with these requirements; nodes add one for each kind of Python.

    An environment uses the packages of the image that it was made in.
    """
    container = spec.container
    content = [
        container.image,
        *(["conda"] if container.conda else []),
        list(facts.requirements),
        list(container.build_constraints),
    ]
    return f"environments/{hashlib.sha256(json.dumps(content).encode()).hexdigest()}"


def of_run(run: str, *parts: str) -> str:
    """Return the key of a file of *run*, relative to the workspace.

    >>> of_run("hello-abc123", "logs", "0-0.txt")
    'runs/hello-abc123/logs/0-0.txt'
    """
    return "/".join(("runs", run, *parts))


def folder(operation: str, **params: Any) -> Request:
    """Return a request that reads or changes the workspace."""
    return Request("folder", operation, params)


def setting(spec: Spec, key: str) -> tuple[str, ...]:
    """Return the path of the setting *key*: in the spec if it is set there, or else `provider`."""
    own = spec.providers.get(spec.provider, {})
    return ("providers", spec.provider, key) if key in own else ("provider",)
