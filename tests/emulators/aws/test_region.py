"""The region's own server comes up whatever else does on this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Objects
from runspec_emulators.frame import listening

pytestmark = pytest.mark.slow


def test_a_port_that_somebody_else_was_faster_to_take_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = listening.free_port
    with socket.socket() as other:
        other.bind((listening.HOST, 0))
        taken = other.getsockname()[1]
        ports = iter([taken])
        monkeypatch.setattr(listening, "free_port", lambda: next(ports, None) or free())

        found = Objects(tmp_path)
        try:
            found.make_bucket("jobs", "eu-central-1")
        finally:
            found.close()

    assert found.port != taken
