"""The storage account of a rehearsal: it is there, it checks who asks, and it ends with its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import ContainerClient

from runspec_emulators.azure_services.blob import SAS_VERSION, Blobs
from runspec_emulators.frame import listening
from tests.support.requirements import need

pytestmark = pytest.mark.slow

OWNER = """
import sys, pathlib, time
from runspec_emulators.azure_services.blob import Blobs
found = Blobs(pathlib.Path(sys.argv[1]))
print(found.process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("azurite")
    with Blobs(tmp_path_factory.mktemp("blobs")) as found:
        found.make_container("jobs")
        yield found


def status(url: str, method: str = "GET", body: bytes | None = None) -> int:
    headers = {"x-ms-blob-type": "BlockBlob", "x-ms-version": SAS_VERSION}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method)) as a:
            return int(a.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_sdk_of_today_reads_what_a_sas_allows_to_write(blobs: Blobs) -> None:
    put = status(f"{blobs.url}/jobs/a%20b?{blobs.sas('jobs', 'cw')}", "PUT", b"hello")

    client = ContainerClient.from_container_url(f"{blobs.url}/jobs?{blobs.sas('jobs', 'rl')}")
    assert put == 201
    assert [b.name for b in client.list_blobs()] == ["a b"]
    assert client.download_blob("a b").readall() == b"hello"


@pytest.mark.parametrize("lack", ["right", "time", "signature", "sas"])
def test_a_write_without_the_right_to_it_is_refused(blobs: Blobs, lack: str) -> None:
    query = {
        "right": blobs.sas("jobs", "r"),
        "time": blobs.sas("jobs", "racwdl", lasts_s=-60),
        "signature": blobs.sas("jobs").replace("sig=", "sig=AA"),
        "sas": "",
    }[lack]

    assert status(f"{blobs.url}/jobs/never?{query}", "PUT", b"x") in (401, 403, 404)
    assert status(f"{blobs.url}/jobs/never?{blobs.sas('jobs')}") == 404


def test_azurite_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    need("azurite")
    line = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        os.kill(pid, 0)

        owner.kill()

    ended = gone(pid)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    assert ended


def gone(pid: int, within_s: float = 60.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_port_that_somebody_else_was_faster_to_take_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = listening.free_port
    with socket.socket() as other:
        other.bind((listening.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = iter([taken])
        monkeypatch.setattr(listening, "free_port", lambda: next(ports, None) or free())

        with Blobs(tmp_path) as found:
            found.make_container("jobs")

    assert found.port != taken


def test_ctrl_c_in_a_terminal_does_not_reach_the_account(blobs: Blobs) -> None:
    """A rehearsal deletes what it made before it ends."""
    assert os.getsid(blobs.process.pid) != os.getsid(0)
