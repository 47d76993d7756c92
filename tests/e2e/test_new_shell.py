"""`runspec shell --new`: a node that is asked for by a terminal, and given back however the terminal ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_entering import tunnel
from tests.support.profiles import own_profile
from tests.support.root import ROOT
from tests.support.slurm.login_node import Login, login
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures
from tests.support.terminal import Terminal

RUNSPEC = [sys.executable, "-m", "runspec_jobs"]
PROVIDERS = "providers: {local: {engine: process, grace: 1s}}\n"
SPEC = f"""\
apiVersion: runspec/v1
name: notebook
provider: local
{PROVIDERS}cluster: {{nodes: 2}}
launch: torchrun
sweep: {{lr: [1, 2]}}
env: {{GREETING: hello you, SHELL: /bin/sh}}
mounts: [{{name: code, source: ./code, target: /job/code}}]
retry: {{attempts: 3}}
command: [python, "${{mounts.code}}/train.py", "${{sweep.lr}}"]
timeout: 10m
"""
WAIT_S = 90.0
BROKEN = 255  # how ssh ends when its connection breaks: ssh(1)
Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.slow


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("it is here\n")
    (tmp_path / "job.yaml").write_text(SPEC)
    return tmp_path / "job.yaml"


def opened(*words: str) -> Terminal:
    """Give a terminal whose shell on a new node has answered."""
    shell = Terminal("shell", "--new", "job.yaml", *words)
    shell.until("the job ends with it")
    shell.type("echo answe'red'\n")
    shell.until("answered")
    return shell


def hang_up(shell: Terminal) -> None:
    """Close the terminal, as a window or a connection does."""
    os.close(shell.fd)
    os.waitpid(shell.pid, 0)


def kill(shell: Terminal) -> None:
    os.kill(shell.pid, signal.SIGKILL)
    os.waitpid(shell.pid, 0)
    os.close(shell.fd)


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def state(capsys: Capture) -> str:
    capsys.readouterr()
    run(["list"])
    return capsys.readouterr().out


def left() -> list[bytes]:
    """Give the environments of processes of a shell's job on this machine."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path("/proc", pid, "environ").read_bytes())
        except OSError:
            continue
    return [env for env in found if b"RUNSPEC_RUN=notebook-shell-" in env]


def test_a_new_shell_is_in_the_jobs_environment_and_the_job_ends_with_it(
    spec: Path, capsys: Capture
) -> None:
    shell = opened()
    shell.type('tty -s && cat "$RUNSPEC_MOUNT_CODE/train.py"; echo "=$GREETING=$RUNSPEC_NODES"\n')
    shell.until("it is here")
    shell.until("=hello you=1")
    shell.type("exit 9\n")

    assert shell.code() == 9
    until(lambda: "succeeded" in state(capsys))
    until(lambda: not left())


@pytest.mark.parametrize("end", [hang_up, kill])
def test_a_job_ends_when_its_terminal_is_closed_or_runspec_is_killed(
    spec: Path, capsys: Capture, end: Callable[[Terminal], None]
) -> None:
    end(opened())

    until(lambda: "succeeded" in state(capsys))
    until(lambda: not left())


def test_a_timeout_ends_the_shell_with_the_job(spec: Path, capsys: Capture) -> None:
    """What it runs is ended, too; nobody at the keyboard has to do anything."""
    began = time.monotonic()
    shell = opened("--set", "timeout=12s")
    shell.type("exec sleep 300\n")

    assert shell.code() == 128 + signal.SIGHUP
    assert time.monotonic() - began < WAIT_S
    until(lambda: "failed" in state(capsys))
    until(lambda: not left())


def test_a_command_takes_the_place_of_the_shell_and_has_the_pipes(spec: Path) -> None:
    done = subprocess.run(
        [*RUNSPEC, "shell", "--new", "job.yaml", "--", "sh", "-c", "cat; exit 5"],
        input=b"a\0b",
        capture_output=True,
        timeout=WAIT_S,
    )

    assert (done.stdout, done.returncode) == (b"a\0b", 5), done.stderr


def test_shell_new_refuses_specs_without_timeout_or_shell(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec.write_text(SPEC.replace("timeout: 10m\n", ""))
    assert run(["shell", "--new", "job.yaml"]) == 2
    said = capsys.readouterr().err
    assert "job.yaml has no timeout" in said
    assert "--set timeout=8h" in said

    spec.write_text(SPEC.replace(PROVIDERS, "").replace("sweep: {lr: [1, 2]}\n", ""))
    role = "arn:aws:iam::123456789012:role/r"
    settings = f"{{region: eu-central-1, bucket: our-bucket, queue: q, job_role: '{role}'}}"
    own_profile().write_text(f"providers: {{aws-batch: {settings}}}\n")
    more = ["--set", "container.image=python:3.12", "--set", "command=[a]"]
    code = run(["shell", "--new", "job.yaml", "--provider", "aws-batch", *more])
    said = capsys.readouterr().err
    assert code == 69, said
    assert "'aws-batch' does not support runspec shell" in said
    assert "providers that support it: kubernetes, local, parallelcluster, slurm" in said

    assert run(["shell", "job", "--yes"]) == 2
    assert "--yes is for a new job" in capsys.readouterr().err
    assert "no run" not in state(capsys)


# On Slurm


def begin(project: Project, **fields: object) -> Terminal:
    project.write("echo never", timeout="10m", env={"SHELL": "/bin/sh", "GREETING": "hi"}, **fields)
    return opened()


def test_on_slurm_a_new_shell_is_a_step_of_a_job_that_ends_with_it(project: Project) -> None:
    shell = begin(project)
    shell.type('tty -s && echo "=$GREETING=$RUNSPEC_RUN"\n')
    shell.until("=hi=job-shell-")
    shell.type("exit 4\n")

    assert shell.code() == 4
    project.until(lambda: not project.alive())
    assert project.status("job-shell")["state"] == "succeeded"


@pytest.mark.parametrize("end", [hang_up, kill])
def test_on_slurm_no_job_is_left_of_a_terminal_that_is_gone(
    project: Project, end: Callable[[Terminal], None]
) -> None:
    end(begin(project))

    project.until(lambda: not project.alive())


@pytest.mark.matrix
def test_on_slurm_a_timeout_ends_the_shell_with_the_job(project: Project) -> None:
    project.write("true", timeout="15s", env={"SHELL": "/bin/sh"})
    shell = opened()
    shell.type("exec sleep 600\n")

    assert shell.code() != 0
    project.until(lambda: not project.alive())
    found = project.status("job-shell")
    assert (found["state"], found["exit_code"]) == ("failed", 124)


@pytest.mark.parametrize("typed", [True, False])
def test_on_slurm_a_job_that_waits_is_cancelled_with_the_command_that_waits(
    project: Project, typed: bool
) -> None:
    project.started("exec sleep 600", name="other")
    number = project.jobs("%i")[-1]
    project.write("true", timeout="10m", providers={"slurm": {"after": [f"afterany:{number}"]}})

    shell = Terminal("shell", "--new", "job.yaml")
    shell.until("waits for")
    if typed:
        shell.type("\x03")
        assert shell.code() == 130
    else:
        hang_up(shell)

    assert len(project.alive()) == 1
    assert project.status("job-shell")["state"] == "cancelled"


# What interactive work is done with, over a tunnel


@pytest.mark.parametrize(
    "name, port, path, answer",
    [
        pytest.param(
            *("notebook", 8888, "/api/contents?token={token}", b'"found.txt"'),
            marks=pytest.mark.matrix,  # a hundred packages
        ),
        ("tensorboard", 6006, "/data/environment", b"/job/all/runs"),
    ],
)
def test_the_examples_of_a_notebook_and_of_curves_answer_through_a_tunnel(
    spec: Path, name: str, port: int, path: str, answer: bytes
) -> None:
    """With the real programs, from the package index; only the machine and the mount are others."""
    (spec.parent / "all" / "runs").mkdir(parents=True)
    (spec.parent / "all" / "found.txt").touch()
    config = {"ServerApp": {"allow_root": True}}  # Jupyter refuses to run as root, as tests may
    (spec.parent / "jupyter_server_config.json").write_text(json.dumps(config))
    own = (
        "cluster={}",
        "mounts=[{name: all, source: ./all, target: /job/all}]",
        "providers.local={engine: process, grace: 1s}",
        f"env.JUPYTER_CONFIG_DIR={spec.parent}",
    )
    settings = [word for one in own for word in ("--set", one)]
    example = ROOT / "specs" / "parallelcluster" / f"{name}.yaml"
    (spec.parent / "example.yaml").write_bytes(example.read_bytes())
    assert run(["apply", "--detach", "--provider", "local", *settings, "example.yaml"]) == 0

    with tunnel(name, str(port)) as (_, url):
        found = get(lambda: url + path.format(token=token(name)))

    assert answer in found
    assert run(["destroy", name]) == 0


def token(name: str) -> str:
    """Give the token that Jupyter has printed."""
    said = subprocess.run([*RUNSPEC, "logs", name], capture_output=True, text=True, check=True)
    return next(iter(re.findall(r"[?&]token=(\w+)", said.stdout)), "")


def get(url: Callable[[], str]) -> bytes:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(url(), timeout=WAIT_S) as answer:
                found: bytes = answer.read()
                return found
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.5)


# Over ssh, whose connection may break


@pytest.fixture
def remote(project: Project, tmp_path: Path) -> Iterator[Login]:
    """The login node of *project*, to which a connection is needed."""
    (tmp_path / "login").mkdir()
    env = tuple(f"{k}={v}" for k, v in project.cluster.env.items())
    with login(tmp_path / "login", (*env, f"PATH={os.environ['PATH']}")) as node:
        project.profile(host="127.0.0.1", ssh_options=node.options)
        yield node


@pytest.mark.matrix
@pytest.mark.parametrize("end", [hang_up, kill])
def test_no_job_is_left_of_a_terminal_whose_shell_came_over_ssh(
    project: Project, remote: Login, end: Callable[[Terminal], None]
) -> None:
    end(begin(project))

    project.until(lambda: not project.alive())


@pytest.mark.matrix
def test_a_connection_that_is_closed_ends_the_shell_and_its_job(
    project: Project, remote: Login
) -> None:
    """As a login node does that restarts. What the shell runs is ended, too."""
    shell = begin(project)
    shell.type("sleep 600\n")

    remote.drop()

    assert shell.code() == BROKEN
    assert "connection to 127.0.0.1 closed" in shell.shown
    project.until(lambda: not project.alive())


@pytest.mark.matrix
def test_a_network_that_loses_everything_ends_the_shell_here_and_timeout_ends_the_job(
    project: Project, remote: Login
) -> None:
    """Nobody tells the login node that the terminal is gone. Its sshd is stopped in place of a network."""
    project.write("echo never", timeout="90s", env={"SHELL": "/bin/sh"})
    shell = opened()
    stopped = remote.sessions()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)

    assert shell.code() == BROKEN
    assert "connection to 127.0.0.1 closed" in shell.shown
    assert project.alive()
    found = project.until_over("job-shell", limit_s=120)
    assert (found["state"], found["exit_code"]) == ("failed", 124)
    project.until(lambda: not project.alive())


@pytest.mark.matrix
def test_a_connection_that_breaks_while_the_shell_waits_is_opened_again(
    project: Project, remote: Login
) -> None:
    project.started("exec sleep 600", name="other")
    number = project.jobs("%i")[-1]
    fields = {"after": [f"afterany:{number}"], "host": "127.0.0.1", "ssh_options": remote.options}
    project.profile(**fields)
    project.write("echo never", timeout="10m", env={"SHELL": "/bin/sh"})
    shell = Terminal("shell", "--new", "job.yaml")
    shell.until("waits for")

    remote.drop()
    project.cluster.run("scancel", number)

    shell.until("the job ends with it")
    shell.type("exit 3\n")
    assert shell.code() == 3
    project.until(lambda: not project.alive())
