"""The region's own server comes up whatever else does on this machine."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from runspec_emulators.aws import region
from runspec_emulators.aws.region import Objects
from runspec_emulators.frame import listening

pytestmark = pytest.mark.slow


class Watched(Objects):
    """Before its server begins, another program tries to take the port."""

    def _start(self, listener: int) -> subprocess.Popen[bytes]:
        with pytest.raises(OSError, match="in use"):
            socket.create_server((listening.HOST, self.port))
        return super()._start(listener)


def test_no_other_program_can_take_the_port_before_its_server_begins(tmp_path: Path) -> None:
    """The server of the other program would be up first, and be taken for this one."""
    found = Watched(tmp_path)
    try:
        found.make_bucket("jobs", "eu-central-1")
    finally:
        found.close()


def test_a_server_that_ends_at_once_is_an_error_with_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region, "SERVER", "runspec_emulators.no_such_module")

    with pytest.raises(RuntimeError, match="No module named"):
        Objects(tmp_path)
