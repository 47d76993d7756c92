"""Sends tokens over http, where a test looks at what is sent; the SDKs refuse that by default."""

from __future__ import annotations

from typing import Any

from azure.core.pipeline.policies import BearerTokenCredentialPolicy

send = BearerTokenCredentialPolicy.on_request


def send_over_http(policy: Any, request: Any) -> None:
    """Stand in for `BearerTokenCredentialPolicy.on_request`."""
    request.context.options["enforce_https"] = False
    send(policy, request)
