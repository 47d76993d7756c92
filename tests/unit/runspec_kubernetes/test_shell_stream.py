"""A command in a pod has the streams, the terminal and the signals of the program that entered it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runspec_emulators.kubernetes import Kubernetes
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import Session
from runspec_kubernetes.timing import CLOCK, DEFAULT
from tests.support import certificates
from tests.support.terminal import Terminal
from tests.support.wait import until

pytestmark = pytest.mark.process
ENTER = [sys.executable, "-P", "-m", "runspec_kubernetes.shell_stream"]
PODS = "/api/v1/namespaces/default/pods"


class Entered:
    """A cluster with a pod that waits."""

    def __init__(self, server: Kubernetes) -> None:
        self.at = [f"--kubeconfig={server.kubeconfig}"]
        session = Session(KubernetesOptions(kubeconfig=str(server.kubeconfig)), DEFAULT, CLOCK)
        container = {"name": "job", "image": "x", "command": ["sleep", "600"]}
        body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        session.send("POST", PODS, body=body)
        until(lambda: session.send("GET", f"{PODS}/p")["status"].get("phase") == "Running")
        session.api.rest_client.pool_manager.clear()

    def run(
        self, script: str, *words: str, text: bytes = b"", pod: str = "p"
    ) -> subprocess.CompletedProcess[bytes]:
        inside = ["/bin/sh", "-c", script, "sh", *words]
        argv = [*ENTER, *self.at, "default", pod, "--", *inside]
        return subprocess.run(argv, input=text, capture_output=True, timeout=60)


@pytest.fixture(scope="module", params=["http", "https"])
def entered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Entered]:
    folder = tmp_path_factory.mktemp("cluster")
    shown = certificates.made(folder) if request.param == "https" else None
    server = Kubernetes(folder / "cluster", certificate=shown)
    yield Entered(server)
    server.close()


def test_streams_and_exit_code_are_those_of_the_command(entered: Entered) -> None:
    done = entered.run('read line; echo "$line $1"; echo bad >&2; exit 7', "é $x", text=b"in\n")

    assert (done.stdout, done.stderr, done.returncode) == ("in é $x\n".encode(), b"bad\n", 7)


def test_bytes_pass_in_both_directions_at_once_up_to_the_end(entered: Entered) -> None:
    text = os.urandom(1 << 22)

    done = entered.run("cat; echo end", text=text)

    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(text + b"end\n").digest()


def test_a_pod_that_is_not_there_cannot_be_entered(entered: Entered) -> None:
    done = entered.run("true", pod="nobody")

    assert (done.stdout, done.returncode) == (b"", 69)
    assert done.stderr.startswith(b"runspec: enter nobody: ")
    assert b"not found" in done.stderr


def test_a_command_that_does_not_begin_is_told(entered: Entered) -> None:
    argv = [*ENTER, *entered.at, "default", "p", "--", "/no/such/program"]

    done = subprocess.run(argv, capture_output=True, timeout=60)

    assert done.returncode in (69, 126, 127)


def test_a_terminal_of_a_command_is_the_one_of_the_user(entered: Entered) -> None:
    size = "until stty size | grep -v '^0 0'; do sleep 0.1; done"
    script = f"{size}; stty raw -echo; echo ready; head -c 1 | od -An -tx1; exit 5"
    words = [*entered.at, "--tty", "default", "p", "--", "/bin/sh", "-c", script]

    terminal = Terminal(*words, program=ENTER, rows=31, columns=97)
    terminal.until("31 97")
    terminal.until("ready")
    terminal.type("\x03")
    terminal.until("03")

    assert terminal.code() == 5
