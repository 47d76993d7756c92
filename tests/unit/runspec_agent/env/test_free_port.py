"""A port for a program that will listen there in a while."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from runspec_agent.env import address

pytestmark = pytest.mark.process


def test_a_free_port_is_none_that_a_connection_could_take() -> None:
    """Those that the system gives to whoever asks for any are left to it."""
    first = int(Path(address.GIVEN).read_text().split()[0])

    found = {address.free_port() for _ in range(50)}

    assert len(found) > 1
    assert all(address.LOWEST <= port < first for port in found)


def test_a_free_port_is_none_that_somebody_listens_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", address.free_port())) as taken:
        port = taken.getsockname()[1]
        tried = iter([port, port, port + 1])
        monkeypatch.setattr(random, "randrange", lambda *_: next(tried))

        assert address.free_port() != port


def test_a_system_without_a_port_range_chooses_the_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(address, "GIVEN", str(tmp_path / "none"))

    assert address.free_port() > 1024
