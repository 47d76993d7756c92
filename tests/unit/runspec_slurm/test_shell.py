"""A shell and a tunnel on a real Slurm: where the program of a node works, here and by way of a login node."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from runspec_emulators.slurm import Cluster
from runspec_jobs.access.port_forward import Tunnel
from runspec_jobs.provider import Unavailable
from runspec_jobs.provider.types import Address, ExecSpec
from runspec_jobs.testing import Trial, World, token
from runspec_jobs.testing.contracts.entering import post, start_program
from runspec_jobs.testing.world import ECHO, SECRET
from runspec_slurm.client import SlurmClient
from runspec_slurm.provider import PROVIDER
from tests.support.slurm.login_node import login
from tests.support.slurm.shared_cluster import slurm

__all__ = ["slurm"]
pytestmark = pytest.mark.slow
WAIT_S = 60.0
CANARY = "canary-in-a-coal-mine"
PORT = 18099


@dataclass
class Here:
    client: SlurmClient
    trial: Trial
    other: SlurmClient  # by way of a login node


@pytest.fixture(scope="module")
def here(slurm: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """A job of two nodes that goes on, seen from here and through SSH."""
    folder = tmp_path_factory.mktemp("entered")
    with pytest.MonkeyPatch.context() as patch, login(folder, _set(slurm)) as sshd:
        for name, value in {**slurm.env, SECRET: CANARY}.items():
            patch.setenv(name, value)
        patch.setenv("RUNSPEC_HOME", str(folder / "home"))
        options = {"workspace": str(folder / "workspace"), "python": sys.executable, "grace": 1}
        world = World(PROVIDER, folder, options={**options, "container": "none"})
        serving = f'{sys.executable} -c "$SERVER" {PORT} 2>/dev/null & cat mark; wait; sleep 600'
        spec = world.spec(
            cluster={"nodes": 2},
            env={"SERVER": ECHO, "GREETING": "it's me"},
            secrets={"TOKEN": "token"},
            run=f"echo here > mark\n[ $RUNSPEC_RANK = 0 ] || {{ cat mark; exec sleep 600; }}\n{serving}\n",
        )
        trial = Trial(world, spec, token(2))
        trial.make()
        try:
            end = time.monotonic() + WAIT_S
            while any(b"here" not in trial.log(0, rank) for rank in (0, 1)):
                assert time.monotonic() < end, trial.log()
                time.sleep(0.1)
            found = trial.client
            assert isinstance(found, SlurmClient)
            facts = world.facts(spec)
            far = {"host": "127.0.0.1", "ssh_options": sshd.options}
            yield Here(found, trial, SlurmClient(facts.options.model_copy(update=far)))
        finally:
            trial.destroy()


def _set(cluster: Cluster) -> tuple[str, ...]:
    return (*(f"{k}={v}" for k, v in cluster.env.items()), f"PATH={os.environ['PATH']}")


@pytest.fixture(params=["here", "ssh"])
def client(request: pytest.FixtureRequest, here: Here, slurm: Cluster) -> Iterator[SlurmClient]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm.env.items():
            patch.setenv(name, value)
        yield here.client if request.param == "here" else here.other


def test_a_step_finds_the_programs_folder_environment_and_secrets(
    here: Here, client: SlurmClient
) -> None:
    text = 'cat mark; printf "%s\\n" "$RUNSPEC_RANK $GREETING $TOKEN $1"; exit 7'
    words = ["sh", "-c", text, "sh", "$HOME `x` 'y'"]

    found = client.shell(here.trial.run, 0, 1, words, terminal=False)
    done = start_program(found)

    said = f"here\n1 it's me {CANARY} $HOME `x` 'y'\n"
    assert (done.stdout.decode(), done.returncode) == (said, 7), done.stderr
    assert CANARY not in f"{found.argv}{found.notes}"


def test_a_shell_has_a_terminal(here: Here, client: SlurmClient) -> None:
    found = client.shell(here.trial.run, 0, 0, [], terminal=True)

    seen, code = typed(found, "stty -echo; tty -s && echo a-terminal; cat mark; exit 5\n")

    assert "a-terminal\r\nhere" in seen
    assert code == 5


def test_a_port_is_reached_at_once_where_slurm_is_here(here: Here, slurm: Cluster) -> None:
    """By a process of its own: tests talk to loopback addresses alone, and nodes have others."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm.env.items():
            patch.setenv(name, value)
        way = here.client.tunnel(here.trial.run, 0, 0, PORT)
    assert isinstance(way, Address)

    ask = "from runspec_jobs.testing.contracts.entering import post; print(post(*sys.argv[1:2], b'hello', 30.0))"
    line = [sys.executable, "-c", f"import sys; {ask}", f"http://{way.host}:{way.port}"]
    done = subprocess.run(line, capture_output=True, text=True)

    assert done.stdout == "b'hello'\n", done.stderr


def test_a_port_is_reached_through_the_login_node(here: Here, slurm: Cluster) -> None:
    body = os.urandom(1 << 20) * 2
    told: list[str] = []
    client = here.other

    tunnel = Tunnel(PORT, 0, lambda: client.tunnel(here.trial.run, 0, 0, PORT), told.append)
    try:
        answer = post(f"http://127.0.0.1:{tunnel.port}", body, WAIT_S)
    finally:
        tunnel.close()

    assert answer == body, told


@pytest.mark.parametrize("at", [(0, 2), (3, 0)])
def test_a_node_that_the_job_does_not_have_is_named(here: Here, at: tuple[int, int]) -> None:
    with pytest.raises(Unavailable, match=f"task {at[0]}, node {at[1]} of .* is not running"):
        here.client.shell(here.trial.run, *at, ["true"], terminal=False)


def typed(what: ExecSpec, text: str) -> tuple[str, int]:
    """Start *what* with a terminal and type *text*; give what was shown, and its exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(what.argv[0], what.argv)
    os.write(fd, text.encode())
    seen, end = b"", time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                data = os.read(fd, 4096)
            except OSError:
                break
            if not data:
                break
            seen += data
    os.close(fd)
    return seen.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
