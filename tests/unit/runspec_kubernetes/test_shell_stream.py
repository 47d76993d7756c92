"""A command in a pod has the streams, the terminal and the signals of the program that entered it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.kubernetes import Kubernetes
from runspec_jobs.access.port_forward import Tunnel
from runspec_jobs.provider import Facts, State
from runspec_kubernetes import plan
from runspec_kubernetes.client import KubernetesClient
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import Session
from runspec_kubernetes.timing import CLOCK, DEFAULT
from tests.support import certificates
from tests.support.terminal import Terminal
from tests.support.wait import until
from tests.unit.runspec_kubernetes.fake_cluster import RUN
from tests.unit.runspec_kubernetes.plans import make_spec

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
    script = 'read line; echo "$line $*"; echo bad >&2; exit 7'

    done = entered.run(script, "--", "é $x", text=b"in\n")

    assert (done.stdout, done.stderr, done.returncode) == ("in -- é $x\n".encode(), b"bad\n", 7)


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


def test_a_shell_and_a_tunnel_lead_to_the_program_of_a_run(tmp_path: Path) -> None:
    with contextlib.closing(Kubernetes(tmp_path, own_root=True)) as server:
        options = KubernetesOptions(kubeconfig=str(server.kubeconfig))
        client = KubernetesClient(options)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        listen = (
            f"import socket; s = socket.create_server(('127.0.0.1', {port})); c = s.accept()[0]"
        )
        echo = (
            "c.sendall(b''.join(iter(lambda: c.recv(1 << 16), b''))[::-1]); c.close(); s.accept()"
        )
        job = make_spec(command=["python3", "-c", f"{listen}; {echo}"], env={"GREETING": "hi é"})
        for step in plan.steps(job, RUN, Facts(options)):
            client.call(step.do)

        def enter(*words: str) -> subprocess.CompletedProcess[bytes]:
            argv = client.shell(RUN, 0, 0, words, terminal=False).argv
            return subprocess.run(argv, input=b"exit 3\n", capture_output=True, timeout=60)

        until(lambda: client.state(RUN).state is State.RUNNING)
        until(lambda: enter("true").returncode == 0)
        done = enter("sh", "-c", 'echo $RUNSPEC_RUN $GREETING "$1"; exit 7', "sh", "--")
        assert (done.stdout, done.returncode) == (f"{RUN} hi é --\n".encode(), 7), done.stderr
        assert enter().returncode == 3

        tunnel = Tunnel(port, 0, lambda: client.tunnel(RUN, 0, 0, port), lambda line: None)
        text = os.urandom(1 << 20)
        with socket.create_connection(("127.0.0.1", tunnel.port)) as link:
            link.sendall(text)
            link.shutdown(socket.SHUT_WR)  # the program answers after the end of its input
            answer = b"".join(iter(lambda: link.recv(1 << 16), b""))
        tunnel.close()
        client.session.api.rest_client.pool_manager.clear()

    assert answer == text[::-1]
