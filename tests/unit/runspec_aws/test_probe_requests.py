"""Requests of probes that are sent as jobs send them, with a URL and no login."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_aws.probes import store


@pytest.mark.parametrize(("bundle", "verifies"), [(None, True), ("/etc/own.pem", "/etc/own.pem")])
def test_a_signed_request_trusts_the_authorities_of_this_machine_or_of_the_bundle(
    monkeypatch: pytest.MonkeyPatch, bundle: str | None, verifies: bool | str
) -> None:
    """It is never sent to a server that is not verified: its URL is a right to read."""
    seen: list[Any] = []

    def open_session(*, verify: Any, proxies: Any) -> Any:
        seen.append(verify)
        answer = SimpleNamespace(status_code=200, headers={}, content=b"x")
        return SimpleNamespace(send=lambda request: answer, close=lambda: None)

    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    if bundle is not None:
        monkeypatch.setenv("AWS_CA_BUNDLE", bundle)
    monkeypatch.setattr(store, "URLLib3Session", open_session)

    reply = store.http("GET", "https://jobs.s3.amazonaws.com/key", {})

    assert (reply[0], seen) == (200, [verifies])
