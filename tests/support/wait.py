"""Waiting for what comes to pass in a moment, on a machine that may be busy with other things."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LIMIT_S = 120.0
SOON_S = 60.0  # for what takes a moment, and would take minutes or for ever


def until(what: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Give the first true value of *what*; fail after *limit_s* seconds without one."""
    end = time.monotonic() + limit_s
    while not (found := what()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
    return found
