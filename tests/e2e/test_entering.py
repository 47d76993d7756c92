"""`runspec shell` and `tunnel` as a person has them: with a terminal, Ctrl-C, a window, and a browser's requests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.load import registry
from runspec_jobs.testing.world import ECHO
from tests.support import process_table
from tests.support.json_documents import check
from tests.support.profiles import own_profile
from tests.support.terminal import Terminal

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process, grace: 1s}}\n"
SLEEPING = "run: |\n  echo begun\n  exec sleep 600\n"
RUNSPEC = [sys.executable, "-m", "runspec_jobs"]
WAIT_S = 90.0
Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.slow


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "job.yaml"
    with contextlib.suppress(Exception):
        run(["destroy", "job"])


def begin(job: Path, text: str) -> None:
    """Apply, and wait until every node has begun."""
    job.write_text(HEAD + text)
    assert run(["apply", "-d", str(job)]) == 0
    end = time.monotonic() + WAIT_S
    logs = Path(os.environ["RUNSPEC_HOME"], "local", "runs")
    while not all("begun" in f.read_text() for f in [*logs.glob("*/logs/*.log")] or [job]):
        assert time.monotonic() < end
        time.sleep(0.05)


def until_runs(*words: str) -> None:
    """Wait for a process of just these words. proc(5)"""
    line = "".join(f"{word}\0" for word in words).encode()
    end = time.monotonic() + WAIT_S
    while not any(words == line for _, words in process_table.words()):
        assert time.monotonic() < end, f"nobody started {words}"
        time.sleep(0.02)


# A shell


def test_a_shell_has_the_terminal_the_folder_and_the_environment(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    begin(job, f"env: {{GREETING: hello you}}\ncluster: {{nodes: 2}}\n{SLEEPING}")

    shell = Terminal("shell", "job", "--node", "1", rows=33, columns=77)
    shell.until("the job goes on")
    shell.type("tty -s && echo a-'terminal'; stty size; echo =$GREETING=$RUNSPEC_RANK; pwd\n")
    shell.until("a-terminal")
    shell.until("33 77")
    shell.until("=hello you=1")
    shell.until("/nodes/1")
    shell.type("exit 9\n")

    assert shell.code() == 9
    assert run(["status", "job"]) == 0


def test_ctrl_c_goes_to_what_the_shell_runs_and_neither_to_the_job_nor_to_runspec(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    begin(job, SLEEPING)

    shell = Terminal("shell", "job")
    shell.until("the job goes on")
    nap = f"300.{os.getpid()}"
    shell.type(f"echo be'gun'; sleep {nap}; echo after-'wards'=$?\n")
    shell.until("begun")
    until_runs("sleep", nap)  # a shell that has yet to start it would take the signal for its own
    shell.type("\x03")
    shell.until("\n")
    shell.type("echo still-'here'\n")
    shell.until("still-here")
    shell.type("exit 4\n")

    assert shell.code() == 4
    capsys.readouterr()
    run(["status", "job", "--json"])
    assert json.loads(capsys.readouterr().out)["state"] == "running"


def test_shell_runs_a_given_command_byte_for_byte(job: Path) -> None:
    begin(job, SLEEPING)
    awkward = ["--", "-x", "two  words", "$HOME", "é\n"]
    ask = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(5)"

    done = subprocess.run(
        [*RUNSPEC, "shell", "job", "--", sys.executable, "-c", ask, *awkward], capture_output=True
    )

    assert (json.loads(done.stdout), done.returncode) == (awkward, 5)


def test_a_program_that_is_ended_by_a_signal_says_so_and_a_closed_pipe_ends_it(job: Path) -> None:
    """Python ignores SIGPIPE; what is started must not."""
    begin(job, SLEEPING)

    done = subprocess.run(
        [*RUNSPEC, "shell", "job", "--", "sh", "-c", "kill -TERM $$"], capture_output=True
    )
    lines = f"{' '.join(RUNSPEC)} shell job -- yes | head -n 1; echo ${{PIPESTATUS[0]}}"
    piped = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, timeout=WAIT_S)

    assert done.returncode == -signal.SIGTERM
    assert piped.stdout.split() == ["y", "141"]


def test_a_secret_of_the_job_is_found_in_the_shell_and_in_no_argument(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "canary-in-a-coal-mine")
    secret = "secrets: {TOKEN: mine}\n"
    job.write_text("")
    own_profile().write_text("providers: {local: {secrets: {mine: env:MINE}}}\n")
    begin(job, secret + SLEEPING)
    monkeypatch.delenv("MINE")

    ask = "printenv TOKEN; tr '\\0' ' ' < /proc/$$/cmdline"
    done = subprocess.run(
        [*RUNSPEC, "shell", "job", "--", "sh", "-c", ask], capture_output=True, text=True
    )

    assert done.stdout.split("\n")[0] == "canary-in-a-coal-mine"
    assert done.stdout.count("canary") == 1
    assert "canary" not in done.stderr


def test_the_first_node_that_runs_is_taken_where_none_is_named(job: Path, capfd: Capture) -> None:
    begin(
        job,
        "sweep: {n: 1..3}\nrun: |\n  echo begun\n  test $RUNSPEC_TASK != 0 || exit 0\n  exec sleep 600\n",
    )
    end = time.monotonic() + WAIT_S
    while '"succeeded"' not in capfd.readouterr().out:
        assert time.monotonic() < end
        run(["status", "job", "--json"])

    done = subprocess.run(
        [*RUNSPEC, "shell", "job", "--", "printenv", "RUNSPEC_TASK"], capture_output=True, text=True
    )
    over = subprocess.run([*RUNSPEC, "shell", "job", "--task", "0"], capture_output=True, text=True)

    assert done.stdout == "1\n"
    assert over.returncode == 69
    assert "task 0, node 0 of job-" in over.stderr
    assert "has ended (succeeded)" in over.stderr


@pytest.mark.parametrize("verb", [["shell", "job"], ["tunnel", "job", "8888"]])
def test_shell_and_tunnel_explain_why_a_node_cannot_be_entered(
    job: Path, verb: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(verb) == 2
    assert "there is no run 'job'" in capsys.readouterr().err

    begin(job, SLEEPING)
    assert run([*verb, "--node", "1"]) == 2
    assert "there is no node 1" in capsys.readouterr().err
    assert run([*verb, "--task", "7"]) == 2
    assert "there is no task 7" in capsys.readouterr().err

    with monkeypatch.context() as patch:
        patch.delattr(type(registry.load("local")), "enters")
        assert run(verb) == 69
    said = capsys.readouterr().err
    assert "'local' does not support runspec" in said


def test_a_run_that_has_ended_cannot_be_entered(job: Path, capsys: Capture) -> None:
    job.write_text(HEAD + "command: ['true']\n")
    assert run(["apply", str(job)]) == 0
    capsys.readouterr()

    for verb in (["shell", "job"], ["tunnel", "job", "8888"]):
        assert run(verb) == 69
        said = capsys.readouterr().err
        assert "has ended (succeeded): no node of it is running" in said
        assert "runspec logs job-" in said


# A tunnel


@contextlib.contextmanager
def tunnel(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Give the process, and the URL that it says."""
    process = subprocess.Popen(
        [*RUNSPEC, "tunnel", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def post(url: str, body: bytes) -> bytes:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(url, body, timeout=WAIT_S) as answer:
                found: bytes = answer.read()
                return found
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_a_tunnel_leads_to_each_node_and_closes_with_its_run(job: Path, tmp_path: Path) -> None:
    """Megabytes, both ways; each node has a server at the same port."""
    (tmp_path / "echo.py").write_text(ECHO)
    begin(
        job,
        "cluster: {nodes: 2}\nrun: |\n  echo begun\n"
        f"  exec {sys.executable} {tmp_path}/echo.py 18080\n",
    )
    body = os.urandom(1 << 20) * 6

    with tunnel("job", "18080", "--node", "1") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert post(url, body) == body
        assert run(["cancel", "job"]) == 0
        _, said = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    assert "has ended (cancelled)" in said


@pytest.mark.parametrize(
    "number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_tunnel_ends_when_it_is_told_to(job: Path, number: int, code: int) -> None:
    begin(job, SLEEPING)

    with tunnel("job", "18080", "--json") as (process, line):
        check(["tunnel", "--json"], line)
        local = json.loads(line)["local"]
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{local}", timeout=WAIT_S)
        process.send_signal(number)
        _, said = process.communicate(timeout=WAIT_S)

    assert process.returncode == code
    assert said.count("no program listens at port 18080 of the node yet") == 1
