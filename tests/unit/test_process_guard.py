"""Plain `pytest` starts no process and listens on no port: a test that does is marked."""

from __future__ import annotations

import socket
import subprocess

import pytest

from tests.support.process_guard import GUARD, ProcessStarted


@pytest.fixture(autouse=True)
def _on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard these tests even if marked tests were chosen as well."""
    marked = request.node.get_closest_marker("process") is not None
    monkeypatch.setattr(GUARD, "refuses", None if marked else request.node.nodeid)


def test_a_test_that_is_not_marked_cannot_start_a_process() -> None:
    with pytest.raises(ProcessStarted, match=r"mark the test with @pytest\.mark\.process"):
        subprocess.run(["true"], check=True)


def test_a_test_that_is_not_marked_cannot_listen() -> None:
    with socket.socket() as own, pytest.raises(ProcessStarted):
        own.bind(("127.0.0.1", 0))


@pytest.mark.process
def test_a_test_that_is_marked_can_do_both() -> None:
    subprocess.run(["true"], check=True)
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
