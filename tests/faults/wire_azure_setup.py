"""What the fault proxy must know of Azure for a setup: it has a login, whose tokens the SDKs send over https alone."""

from __future__ import annotations

import importlib
from typing import Any

from azure.core.pipeline.policies import BearerTokenCredentialPolicy

from tests.faults import wire_azure
from tests.faults.boundaries import Boundaries
from tests.support.azure.plain_tokens import send_over_http


def warm() -> None:
    wire_azure.warm()
    importlib.import_module("runspec_azure.batch.setup.client")


def installed(steps: Boundaries, at: int | None, fault: str | None) -> None:
    """Count the requests of this process, which the proxy sees as they are over http."""
    policy: Any = BearerTokenCredentialPolicy
    policy.on_request = send_over_http
    manager: Any = importlib.import_module("runspec_azure.batch.setup.manager")
    manager.refuse_plain = lambda *_: None
    wire_azure.count(steps, at, fault)
