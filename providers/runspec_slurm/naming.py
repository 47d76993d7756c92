"""Keys of the files in the workspace, and requests about them."""

from __future__ import annotations

import hashlib
from typing import Any

from runspec_jobs.provider import Request, Spec, inside_zipapp

INSIDE_SHA256 = hashlib.sha256(inside_zipapp()).hexdigest()
INSIDE = f"inside/{INSIDE_SHA256}.pyz"


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
