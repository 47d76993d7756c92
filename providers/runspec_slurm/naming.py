"""Where things lie in the workspace, and requests in the client's words."""

from __future__ import annotations

import hashlib
from typing import Any

from runspec_jobs.provider import Request, Spec, inside_zipapp

INSIDE_SHA256 = hashlib.sha256(inside_zipapp()).hexdigest()
INSIDE = f"inside/{INSIDE_SHA256}.pyz"


def of_run(run: str, *parts: str) -> str:
    """Return a place of a run, relative to the workspace.

    >>> of_run("hello-abc123", "logs", "0-0.txt")
    'runs/hello-abc123/logs/0-0.txt'
    """
    return "/".join(("runs", run, *parts))


def folder(operation: str, **params: Any) -> Request:
    """Return a request about the workspace."""
    return Request("folder", operation, params)


def setting(spec: Spec, key: str) -> tuple[str, ...]:
    """Return the place of a setting: in the spec, where it says it, or that of the provider."""
    own = spec.providers.get(spec.provider, {})
    return ("providers", spec.provider, key) if key in own else ("provider",)
