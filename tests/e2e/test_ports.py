"""`apply` opens a tunnel to each port of a spec while it follows the run, and says at which address."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.support.profiles import own_profile
from tests.support.slurm.project import (
    Project,
    cluster as cluster,  # a fixture
    project as project,  # a fixture
)

pytestmark = pytest.mark.slow
# Answers two requests at different ports, and ends.
SERVE = """\
import http.server, os, sys
class One(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path.encode())
    def log_message(self, *_): pass
servers = [http.server.HTTPServer((os.environ["RUNSPEC_HOST"], int(port)), One) for port in sys.argv[1:]]
for server in servers: server.handle_request()
"""
ADDRESS = re.compile(r"port (\d+)( \(\w+\))? of job-\w+ is (http://127\.0\.0\.1:\d+)$")
Capture = pytest.CaptureFixture[str]


def free_ports(count: int) -> list[int]:
    import socket

    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    numbers = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return numbers


def write(provider: str, notebook: int, board: int) -> None:
    settings = {"local": {"engine": "process"}} if provider == "local" else {}
    spec = {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": provider,
        "ports": {"notebook": notebook, "board": board},
        "command": ["python3", "-c", SERVE, str(notebook), str(board)],
        "providers": settings,
        "timeout": "2m",
    }
    Path("job.yaml").write_text(json.dumps(spec))


def follow_and_ask() -> tuple[int, dict[str, str]]:
    """Apply, ask at each address that it says, and return its exit code and the answers by the name of the port."""
    words = [sys.executable, "-m", "runspec_jobs", "apply", "job.yaml"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as applied:
        assert applied.stderr is not None
        found: dict[str, str] = {}
        for line in applied.stderr:
            if match := ADDRESS.search(line.rstrip()):
                found[(match[2] or "").strip(" ()")] = match[3]
            if len(found) == 2:
                break
        assert set(found) == {"notebook", "board"}
        answers = {}
        for name in ("notebook", "board"):  # the job answers one after the other
            answers[name] = ask(f"{found[name]}/{name}")
        applied.stderr.read()
        return applied.wait(60), answers


def ask(url: str) -> str:
    """Return the answer at *url*, once the program behind the tunnel listens."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


ANSWERED = (0, {"notebook": "/notebook", "board": "/board"})


def test_a_job_of_this_machine_answers_at_the_address_that_apply_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("local", *free_ports(2))

    assert follow_and_ask() == ANSWERED


def test_a_job_of_slurm_answers_at_the_address_that_apply_says(project: Project) -> None:
    write("slurm", *free_ports(2))

    assert follow_and_ask() == ANSWERED


def test_a_run_that_nobody_follows_names_the_tunnel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "apiVersion: runspec/v1\nname: job\nprovider: local\nports: [8888]\nrun: sleep 600\n"
    Path("job.yaml").write_text(text)

    assert run(["apply", "-d", "job.yaml"]) == 0
    told = capsys.readouterr()
    name = told.out.strip()
    run(["status", "job"])
    shown = capsys.readouterr().out
    run(["status", "job", "--json"])
    ports = json.loads(capsys.readouterr().out)["ports"]
    run(["destroy", "job"])

    assert f"to reach its port: runspec tunnel {name} 8888" in told.err
    assert f"  to reach its port: runspec tunnel {name} 8888\n" in shown
    assert ports == {"8888": 8888}


@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch", "azure-batch-ai"])
def test_where_there_is_no_tunnel_ports_are_refused(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    own_profile().write_text("providers: {}\n")
    write(provider, 8888, 6006)

    assert run(["validate", "job.yaml"]) == 2
    err = capsys.readouterr().err
    assert f"ports: '{provider}' has no way to a port of a node" in err
    assert "hint: remove ports, or use kubernetes, local, parallelcluster, slurm" in err
