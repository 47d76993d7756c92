"""The response of the service to a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Response:
    """A status, a JSON value or bytes, and headers."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
