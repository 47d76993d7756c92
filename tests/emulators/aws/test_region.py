"""The region's own server comes up whatever else does on this machine."""

from __future__ import annotations

import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runspec_emulators.aws import region
from runspec_emulators.aws.region import Objects
from runspec_emulators.frame import listening

pytestmark = pytest.mark.slow


def test_the_server_of_somebody_else_is_never_taken_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two programs may be given the same free port, and that of the other one is up first, and answers."""
    other = ThreadingHTTPServer((listening.HOST, 0), SimpleHTTPRequestHandler)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    free, ports = listening.free_port, iter([other.server_port])
    monkeypatch.setattr(listening, "free_port", lambda: next(ports, None) or free())

    found = Objects(tmp_path)
    try:
        assert found.port != other.server_port
        found.make_bucket("jobs", "eu-central-1")
    finally:
        found.close()
        other.shutdown()
        other.server_close()


def test_a_server_that_ends_at_once_is_an_error_with_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region, "SERVER", "runspec_emulators.no_such_module")

    with pytest.raises(RuntimeError, match="No module named"):
        Objects(tmp_path)
