"""moto's server as a process of a rehearsal."""

from __future__ import annotations

import signal
import subprocess
import sys
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


def test_the_service_of_a_host_is_looked_up_once() -> None:
    """Moto lists its folder of services for each request, which is a third of the work of one."""
    program = """
import moto.backends
from runspec_emulators.aws.moto_server import Dispatcher
times = []
moto.backends.list_of_moto_modules = lambda: times.append(1) or ["s3"]
dispatcher = Dispatcher(lambda service: None)
print({dispatcher.get_backend_for_host("s3.eu-west-1.amazonaws.com") for _ in range(3)}, len(times))
"""  # a process of its own, since the module changes what moto does
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "{'s3'} 1\n", done.stderr


def test_only_the_server_imports_moto(tmp_path: Path) -> None:
    """It takes a sixth of a second, which a rehearsal would spend twice."""
    program = """
import pathlib, sys
from runspec_aws.emulator import stage
with stage({}, pathlib.Path(sys.argv[1]), "process"):
    print("moto" in sys.modules)
"""
    words = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
