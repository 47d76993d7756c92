"""moto's server as a process of a rehearsal."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Objects

pytestmark = pytest.mark.slow


def test_ctrl_c_in_a_terminal_does_not_end_the_store(tmp_path: Path) -> None:
    """A rehearsal deletes what it made before it ends."""
    objects = Objects(tmp_path)
    try:
        objects.process.send_signal(signal.SIGINT)

        with pytest.raises(subprocess.TimeoutExpired):
            objects.process.wait(1)
        objects.ask("GET", "/moto-api/")
    finally:
        objects.close()
