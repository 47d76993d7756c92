"""The pauses that a service asks for are kept, and no client waits for a day."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_azure.session.transport import BoundedRetries


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("7", 7.0), ("86400", 60.0), ("1e400", 60.0), ("soon", None), ("", None), (None, None)],
)
def test_the_pause_of_an_answer_is_a_minute_at_most(
    asked: str | None, seconds: float | None
) -> None:
    headers = {} if asked is None else {"Retry-After": asked}
    response: Any = SimpleNamespace(http_response=SimpleNamespace(headers=headers))

    assert BoundedRetries().get_retry_after(response) == seconds


def test_a_date_long_ahead_is_a_minute() -> None:
    headers = {"Retry-After": "Wed, 25 Nov 2099 00:00:00 GMT"}
    response: Any = SimpleNamespace(http_response=SimpleNamespace(headers=headers))

    assert BoundedRetries().get_retry_after(response) == 60.0
